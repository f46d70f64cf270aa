SELECT name::text, setting::text FROM pg_settings
WHERE name IN (
    'fsync', 'full_page_writes', 'synchronous_commit', 'autovacuum', 'track_counts', 'zero_damaged_pages',
    'ignore_checksum_failure', 'data_checksums'
)
