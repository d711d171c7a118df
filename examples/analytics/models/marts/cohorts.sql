-- Customers by the week (Monday) of their first order, and what they did in each week after it. For months put 'month'
-- in place of 'week'. A week without orders of a cohort has no row.
with activity as (
  select
    customer_id,
    order_id,
    currency,
    total,
    cast(date_trunc('week', first_placed_on) as date) as cohort,
    date_diff('week', date_trunc('week', first_placed_on), date_trunc('week', placed_on)) as weeks_later
  from {{ ref('stg_customer_orders') }}
),

sizes as (
  select cohort, count(distinct customer_id) as cohort_customers
  from activity
  group by cohort
)

select
  activity.cohort,
  activity.weeks_later,
  activity.currency,
  sizes.cohort_customers,
  count(distinct activity.customer_id) as customers,
  count(*) as orders,
  sum(activity.total) as revenue
from activity
inner join sizes on sizes.cohort = activity.cohort
group by activity.cohort, activity.weeks_later, activity.currency, sizes.cohort_customers
