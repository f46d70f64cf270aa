"""Files: their bytes, what they are, and how they travel over HTTP. The room knows no database and no account."""
