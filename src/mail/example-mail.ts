import type { AccountMailValues } from './account-mail.ts'
import type { AccountMailKind, OrderMailKind } from './mail-kinds.ts'
import type { MailContent } from './render-mail.ts'

export const EXAMPLE_CUSTOMER = 'Ada Lovelace'
/** No token that anybody was sent. */
const EXAMPLE_TOKEN = 'one-time-token-of-an-example'

/** An invented order, for previews of templates. Pure. */
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
    ...(kind === 'amended' ? { amended: ['shipping_address', 'email'] } : {}),
    reason: kind.endsWith('cancelled') || kind.endsWith('returned') ? 'The parcel was damaged.' : null,
    tracking:
      kind.endsWith('shipped') || kind === 'amended'
        ? { carrier: 'DHL', number: '00340434161094015902', url: 'https://www.dhl.com/track?id=00340434161094015902' }
        : null,
  }
}

/** What a mail about an invented account has, for previews of templates. Pure. */
export function exampleAccountMailValues(kind: AccountMailKind): AccountMailValues {
  const isInvitation = kind === 'operator_invited'
  return {
    token: EXAMPLE_TOKEN,
    ...(isInvitation ? { isForConsole: true, role: 'support', inviter: 'grace@example.com' } : {}),
  }
}
