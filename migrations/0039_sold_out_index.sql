-- no transaction
-- functions: 7d902a1124310322
-- Sold-out products since a time, which staff mails look for each minute. See docs/decisions/mail.md#staff-mails.
create index concurrently if not exists product_events_sold_out_idx on product_events (occurred_at) where type = 'stock.depleted';
