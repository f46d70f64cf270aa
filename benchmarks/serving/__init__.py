"""What a real server bears: thousands of live streams beside a steady load, and what a request costs."""
