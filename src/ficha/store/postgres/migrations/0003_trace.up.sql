-- kind: additive
-- The W3C trace context that a job was submitted with: its traceparent and, after a space, its tracestate.
ALTER TABLE ficha.jobs ADD COLUMN trace_context text;
