-- functions: 7d902a1124310322
-- Who gets the invoice of an order; null: as the shipping address. Erased with it. See docs/decisions/orders-notes.md#billing.
alter table orders
  add column billing_address jsonb,
  add column vat_number text;
