DROP TABLE audit;
DROP TABLE api_key_uses;
DROP TABLE api_keys;
