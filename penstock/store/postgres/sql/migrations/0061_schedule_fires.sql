-- What became of the fires of schedules: the latest of each schedule.

create table penstock.schedule_fires (
  id bigint generated always as identity primary key,
  schedule_id bigint not null,
  -- The time of the timetable, and how many were fired together.
  scheduled_for timestamptz not null,
  times integer not null,
  fired_at timestamptz not null,
  by_hand boolean not null,
  -- Of the first message, event or job.
  sent_id text,
  error text
);

create index schedule_fires_schedule on penstock.schedule_fires (schedule_id, id);
create index schedule_fires_age on penstock.schedule_fires (fired_at);
