SELECT {id}, account_id, {at} FROM ficha.files WHERE state = 'stored' ORDER BY files.id DESC LIMIT {limit}
