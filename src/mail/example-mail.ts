import type { AccountMailValues } from './account-mail.ts'
import { type AccountMailKind, isStaffMailKind, type OrderMailKind, type StaffMailKind } from './mail-kinds.ts'
import type { MailContent } from './render-mail.ts'
import type { StaffNotice } from './staff-notices.ts'

export const EXAMPLE_CUSTOMER = 'Ada Lovelace'
/** A token that was never sent to anybody. */
const EXAMPLE_TOKEN = 'one-time-token-of-an-example'

/** An invented order for template previews. Pure. */
export function exampleMailContent(kind: OrderMailKind, currency: string): MailContent {
  return {
    event_id: '01997a60-2b33-7e45-a1c8-6d0e9f7b3a55.1',
    kind,
    time: '2026-03-04T18:05:00.000Z',
    user_id: '01997a5e-0c41-7b02-8d1e-5f0f6a3c9b11',
    order: {
      number: '100042',
      items: [
        { name: 'Blue mug', quantity: 2, total: 2_580 },
        { name: 'Tea & biscuits, 1 kg', quantity: 1, total: 123_450 },
      ],
      total: 126_030,
      currency,
    },
    ...(kind.startsWith('part_') ? { lines: [{ name: 'Blue mug', quantity: 1 }] } : {}),
    ...(kind === 'amended' ? { amended: ['shipping_address', 'billing_address', 'email'] } : {}),
    reason: kind.endsWith('cancelled') || kind.endsWith('returned') ? 'The parcel was damaged.' : null,
    tracking:
      kind.endsWith('shipped') || kind === 'amended'
        ? { carrier: 'DHL', number: '00340434161094015902', url: 'https://www.dhl.com/track?id=00340434161094015902' }
        : null,
  }
}

/** The values of a mail to an invented account, for template previews. Pure. */
export function exampleAccountMailValues(kind: AccountMailKind, currency: string): AccountMailValues {
  const isInvitation = kind === 'operator_invited'
  const id = '01997a60-2b33-7e45-a1c8-6d0e9f7b3a55'
  const notices: Record<StaffMailKind, StaffNotice> = {
    staff_orders: { id, name: '100042', total: { amount: 126_030, currency } },
    staff_sold_out: { id, name: 'Tea & biscuits, 1 kg' },
    staff_failed_mails: { id: `${id}.1`, name: '100042', mail: 'created' },
  }
  return {
    token: EXAMPLE_TOKEN,
    ...(isInvitation ? { isForConsole: true, role: 'support', inviter: 'grace@example.com' } : {}),
    ...(isStaffMailKind(kind) ? { notices: { count: 53, list: [notices[kind]] } } : {}),
  }
}
