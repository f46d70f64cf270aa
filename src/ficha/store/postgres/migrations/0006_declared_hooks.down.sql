DROP TABLE ficha.declared_hooks;
