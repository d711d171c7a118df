-- no transaction
-- functions: 0dda5f677fdfdafb
alter table products validate constraint products_times_ordered;
