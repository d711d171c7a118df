import type { OrderEventName, PartMove } from '../orders/order-status.ts'

/** Parts that several kinds of mail share. `built-in-templates.ts` has them as text and as HTML. */
export type Block =
  | 'amendments'
  | 'order'
  | 'orderWithoutReason'
  | 'lines'
  | 'tracking'
  | 'reason'
  | 'link'
  | 'action'
  | 'invitation'
  | 'notices'

/** The parts of a mail between greeting and footer. Each is a text of the mail's kind, or a block. */
export type Structure = readonly ('body' | 'now' | 'notice' | 'remedy' | 'task' | 'advice' | Block)[]

/** Order mails by kind, which is the last part of their event's type, or names a change to a part of the order. */
export const ORDER_MAILS = {
  created: ['body', 'order', 'link'],
  confirmed: ['body', 'order', 'link'],
  shipped: ['body', 'tracking', 'order', 'link'],
  delivered: ['body', 'order', 'link'],
  cancelled: ['body', 'order', 'link'],
  returned: ['body', 'order', 'link'],
  amended: ['body', 'amendments', 'tracking', 'order', 'link'],
  readdressed: ['body', 'advice'],
  part_shipped: ['body', 'lines', 'tracking', 'reason', 'link'],
  part_cancelled: ['body', 'lines', 'reason', 'now', 'orderWithoutReason', 'link'],
  part_returned: ['body', 'lines', 'reason', 'link'],
} as const satisfies Record<OrderEventName | `part_${PartMove}` | 'amended' | 'readdressed', Structure>

const NOTICE = ['notice', 'advice'] as const
const TOKEN = ['notice', 'action', 'advice'] as const
const REVERT = ['notice', 'remedy', 'action', 'advice'] as const

/** Account and staff mails by kind. */
export const ACCOUNT_MAILS = {
  verify_email: TOKEN,
  reset_password: TOKEN,
  already_registered: NOTICE,
  password_changed: NOTICE,
  sign_in_linked: NOTICE,
  sign_in_unlinked: NOTICE,
  second_factor_added: NOTICE,
  second_factor_removed: NOTICE,
  second_factor_failed: NOTICE,
  recovery_code_used: NOTICE,
  operator_invited: ['notice', 'invitation', 'task', 'action', 'advice'],
  confirm_email: TOKEN,
  address_in_use: NOTICE,
  email_change_requested: REVERT,
  email_changed: REVERT,
  email_change_reverted: NOTICE,
  staff_orders: ['body', 'notices'],
  staff_sold_out: ['body', 'notices'],
  staff_failed_mails: ['body', 'notices', 'advice'],
} as const satisfies Record<string, Structure>

export type OrderMailKind = keyof typeof ORDER_MAILS
export type AccountMailKind = keyof typeof ACCOUNT_MAILS
export const ORDER_MAIL_KINDS = Object.keys(ORDER_MAILS) as OrderMailKind[]
export const STAFF_MAIL_KINDS = ['staff_orders', 'staff_sold_out', 'staff_failed_mails'] as const satisfies AccountMailKind[]
export type StaffMailKind = (typeof STAFF_MAIL_KINDS)[number]

export function isStaffMailKind(kind: string): kind is StaffMailKind {
  return (STAFF_MAIL_KINDS as readonly string[]).includes(kind)
}

export const ACCOUNT_MAIL_KINDS = Object.keys(ACCOUNT_MAILS) as AccountMailKind[]

export function hasAmounts(kind: OrderMailKind): boolean {
  const structure: Structure = ORDER_MAILS[kind]
  return structure.includes('order') || structure.includes('orderWithoutReason')
}

type TextsOf<Mails extends Record<string, Structure>, Always extends string> = {
  readonly [Kind in keyof Mails]: Readonly<Record<Always | Exclude<Mails[Kind][number], Block>, string>>
}

/** The texts of a language. They may contain template values such as `{{number}}`, but no markup. */
export interface MailTexts {
  greeting: string
  greetingWithoutName: string
  /** The separator between label and value, without the space after it. */
  colon: string
  /** The line above the heading, which names the order. */
  order: string
  item: string
  total: string
  refunded: string
  /** The unit price beside a line with several units. */
  each: string
  moreItems: string
  reason: string
  /** A prefix for the subject of a copy. */
  copy: string
  /** Text between carrier and number. */
  trackingNumber: string
  /** Names of amended parts. */
  newAddress: string
  newBilling: string
  newEmail: string
  /** The link to the page of the order. */
  seeOrder: string
  /** The link with a one-time token. */
  open: string
  role: string
  inviter: string
  console: string
  orderFooter: string
  accountFooter: string
  /** The heading is in the HTML only, and may repeat the subject. */
  orders: TextsOf<typeof ORDER_MAILS, 'subject' | 'heading'>
  accounts: TextsOf<typeof ACCOUNT_MAILS, 'subject'>
}
