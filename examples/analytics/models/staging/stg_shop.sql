-- The settings of these models: one row. The name of the time zone is that of the IANA database.
select 'Europe/London' as time_zone
