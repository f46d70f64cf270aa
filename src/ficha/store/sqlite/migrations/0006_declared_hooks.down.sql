DROP TABLE declared_hooks;
