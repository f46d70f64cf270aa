CREATE INDEX leases_by_expiry ON leases (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX leases_by_worker ON leases (worker) WHERE worker IS NOT NULL;
