-- Paused schedules are counted for the metrics: a schedule that fails too often pauses itself, and somebody should see.

create index schedules_paused on penstock.schedules (id) where status = 'paused';
