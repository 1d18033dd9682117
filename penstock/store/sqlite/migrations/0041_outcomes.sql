-- What became of the fires of schedules: the latest of each schedule.

create table schedule_fires (
  id integer primary key autoincrement,
  schedule_id integer not null,
  scheduled_for integer not null,
  times integer not null,
  fired_at integer not null,
  by_hand integer not null,
  sent_id text,
  error text
) strict;

create index schedule_fires_schedule on schedule_fires (schedule_id, id);
create index schedule_fires_age on schedule_fires (fired_at);

-- Outcomes for charts: what succeeded and what failed in each minute, kept for a day, and in each hour, for a month.

create table outcomes (
  tenant_id integer not null,
  kind text not null check (kind in ('job', 'delivery', 'schedule')),
  step integer not null check (step in (1, 60)),
  starts_at integer not null,
  good integer not null,
  bad integer not null,
  primary key (tenant_id, kind, step, starts_at)
) strict, without rowid;

create index outcomes_age on outcomes (step, starts_at);
