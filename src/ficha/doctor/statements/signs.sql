-- What processes show of themselves, among the duties that processes share.
SELECT name, owner, {until} FROM ficha.leaders
