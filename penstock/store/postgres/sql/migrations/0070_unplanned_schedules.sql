-- Schedules that SQL created or resumed: a server computes the next fire before it fires them.

alter table penstock.schedules add column unplanned boolean not null default false;
