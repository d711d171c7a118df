import { type Static, Type } from 'typebox'
import { EXAMPLE_ORDER_DETAIL } from './examples.ts'
import { type Order, OrderSchema, OrderStatusSchema, presentOrder } from './order.ts'
import { OrderChangeSchema } from './order-changes.ts'
import { type OrderStatus, versionOf } from './order-status.ts'
import { ReferenceSchema, TrackingSchema } from './tracking.ts'

const Time = Type.Union([Type.String({ format: 'date-time' }), Type.Null()])

const MailStateSchema = Type.Object({
  status: Type.Enum(['queued', 'sent', 'failed']),
  queued_at: Type.String({ format: 'date-time' }),
  sent_at: Time,
  failed_at: Time,
  bounced_at: Type.Union(Time.anyOf, { description: 'When the mail provider reported that the mail came back. Null if it has not.' }),
  complained_at: Type.Union(Time.anyOf, {
    description: 'When the mail provider reported that the customer called the mail spam. Null if there is no such report.',
  }),
  attempts: Type.Integer(),
})

const TimelineEntrySchema = Type.Object(
  {
    version: Type.Integer(),
    status: OrderStatusSchema,
    at: Type.String({ format: 'date-time', description: 'When the change was made.' }),
    reference: Type.Optional(ReferenceSchema),
    tracking: Type.Optional(TrackingSchema),
    change: Type.Optional(OrderChangeSchema),
    imported: Type.Optional(Type.Boolean({ description: 'The change was made in another shop and moved in.' })),
    published_at: Type.Union(Time.anyOf, {
      description: 'When the event of the change was published to the topic. Null if it is not there yet, or if the time was not recorded.',
    }),
    mail: Type.Union([MailStateSchema, Type.Null()]),
    mail_copies: Type.Array(MailStateSchema, { description: 'Copies of the mail that an operator has sent again, oldest first.' }),
    lake_at: Type.Union(Time.anyOf, {
      description: 'When the change was stored in the data lake. Null if it is not there yet, or if the time was not recorded.',
    }),
  },
  { title: 'TimelineEntry' },
)

export const OrderDetailSchema = Type.Object(
  { ...OrderSchema.properties, timeline: Type.Array(TimelineEntrySchema) },
  { title: 'OrderDetail', examples: [EXAMPLE_ORDER_DETAIL] },
)
export type OrderDetail = Static<typeof OrderDetailSchema>

export interface MailState {
  status: 'queued' | 'sent' | 'failed'
  queuedAt: Date
  sentAt: Date | null
  failedAt: Date | null
  bouncedAt: Date | null
  complainedAt: Date | null
  attempts: number
}

export interface Delivery {
  publishedAt: Date | null
  mail: MailState | null
  copies: MailState[]
  lakeAt: Date | null
}

export type FindDeliveries = (order: Order) => Promise<ReadonlyMap<number, Delivery>>

export function presentOrderDetail(
  order: Order,
  deliveries: ReadonlyMap<number, Delivery>,
  cancellable?: readonly OrderStatus[],
): OrderDetail {
  const timeline = order.statusHistory.map(({ actor: _actor, reason: _reason, version: named, ...change }, index) => {
    const version = versionOf({ version: named }, index)
    const { publishedAt = null, mail = null, copies = [], lakeAt = null } = deliveries.get(version) ?? {}
    const mails = { mail: mail && presentMail(mail), mail_copies: copies.map(presentMail) }
    return { version, ...change, published_at: toText(publishedAt), ...mails, lake_at: toText(lakeAt) }
  })
  return { ...presentOrder(order, cancellable), timeline }
}

function presentMail({ status, queuedAt, sentAt, failedAt, bouncedAt, complainedAt, attempts }: MailState) {
  const times = { queued_at: queuedAt.toISOString(), sent_at: toText(sentAt), failed_at: toText(failedAt) }
  return { status, ...times, bounced_at: toText(bouncedAt), complained_at: toText(complainedAt), attempts }
}

function toText(time: Date | null): string | null {
  return time === null ? null : time.toISOString()
}
