-- Figures are kept for 61 days instead of eight, and count what orders are worth now. The store computes those of older
-- orders in parts, newest first, while it runs. The previous release neither reads nor writes these columns.
alter table figure_progress
  -- Every minute from this time on is in the figures. Null: the next run begins with the present minute.
  add column filled_from timestamptz(0),
  -- What orders were worth at this time is in the figures.
  add column changed_at timestamptz(3);

alter table order_figures
  -- Minor units: what these orders are worth now. Null in rows of the previous release.
  add column net_revenue numeric,
  add column cancelled bigint not null default 0,
  add column returned bigint not null default 0;

-- The previous release deletes figures after eight days.
create trigger order_figures_keep before delete on order_figures for each row
  when (old.minute < now() - interval '7 days 23:55' and current_setting('storefront.figure_days', true) is distinct from '61')
  execute function keep_row();
create trigger product_figures_keep before delete on product_figures for each row
  when (old.slice < now() - interval '7 days 23:55' and current_setting('storefront.figure_days', true) is distinct from '61')
  execute function keep_row();
