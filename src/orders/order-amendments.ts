import type { HistoryEntry } from './order-changes.ts'
import type { ShippingAddress } from './postal-address.ts'

export interface AmendableValues {
  shipping_address: ShippingAddress | null
  billing_address: ShippingAddress | null
  vat_number: string | null
  email: string | null
}

export const AMENDABLE_MEMBERS = {
  shipping_address: 'shippingAddress',
  billing_address: 'billingAddress',
  vat_number: 'vatNumber',
  email: 'email',
} as const satisfies Record<keyof AmendableValues, string>
export const AMENDABLE_COLUMNS = Object.keys(AMENDABLE_MEMBERS) as (keyof AmendableValues)[]

/** Keyed by the index of the amendment. Kept apart from the history, which is never erased and part of every event. */
export type FormerValues = Readonly<Record<string, Partial<AmendableValues>>>

export interface Amended {
  values: AmendableValues
  former: FormerValues | null
  history: readonly HistoryEntry[]
}

/** The values after the change at `index` of the history. A value is null when it was erased or is unknown. */
export function valuesAt({ values, former, history }: Amended, index: number): AmendableValues {
  return amendableValues((name) => {
    const place = history.findIndex(({ change }, at) => at > index && change?.type === 'amended' && change.amended.includes(name))
    return place === -1 ? values[name] : (former?.[place]?.[name] ?? null)
  })
}

export function amendableValues(read: <Name extends keyof AmendableValues>(name: Name) => AmendableValues[Name]): AmendableValues {
  return Object.fromEntries(AMENDABLE_COLUMNS.map((name) => [name, read(name)])) as unknown as AmendableValues
}
