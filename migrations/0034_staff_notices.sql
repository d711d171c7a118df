-- What the staff is mailed about: an order, a product that is sold out, a mail that no customer has got. Rows are kept for some days, so that
-- each thing is told once. See docs/decisions/mail.md#staff-mails.
create table staff_notices (
  -- The mail that tells it.
  kind text not null,
  -- The id of the order, the product or the mail.
  subject text not null,
  -- A product may be sold out again later, and a mail may fail again.
  happened_at timestamptz(3) not null,
  content json not null,
  noticed_at timestamptz(3) not null default now(),
  mailed_at timestamptz(3),
  primary key (kind, subject, happened_at)
);
create index staff_notices_waiting_idx on staff_notices (kind, noticed_at) where mailed_at is null;

-- One row for each kind of staff mail. The process that locks it makes the next mail.
create table staff_mails (
  kind text primary key,
  -- The state up to here is in `staff_notices`. Null: it was never examined.
  examined_at timestamptz(3),
  mailed_at timestamptz(3)
);
insert into staff_mails (kind) values ('staff_orders'), ('staff_sold_out'), ('staff_failed_mails');
