-- functions: 5ab580bdbd458d03
-- The begin of a run and the time of the figures differ. The previous release neither reads nor writes the column.
alter table figure_progress
  -- When a process began a run: others that come at the same time do nothing.
  add column begun_at timestamptz(3);
