import type { HistoryEntry } from './order-changes.ts'
import type { ShippingAddress } from './postal-address.ts'

/** What an amendment replaces in an order, by the names of the columns. */
export interface AmendableValues {
  shipping_address: ShippingAddress | null
  billing_address: ShippingAddress | null
  vat_number: string | null
  email: string | null
}

/** The member of an order that has each of these values. */
export const AMENDABLE_MEMBERS = {
  shipping_address: 'shippingAddress',
  billing_address: 'billingAddress',
  vat_number: 'vatNumber',
  email: 'email',
} as const satisfies Record<keyof AmendableValues, string>
export const AMENDABLE_COLUMNS = Object.keys(AMENDABLE_MEMBERS) as (keyof AmendableValues)[]

/**
 * The values that amendments have replaced, by the place of the amendment in the history, from 0. Apart from the
 * history, which is never erased and part of every event.
 */
export type FormerValues = Readonly<Record<string, Partial<AmendableValues>>>

/** An order, or its row, with what its values have been. */
export interface Amended {
  values: AmendableValues
  former: FormerValues | null
  history: readonly HistoryEntry[]
}

/** The values after the change at `index` of the history; null for those that are erased or unknown. Pure. */
export function valuesAt({ values, former, history }: Amended, index: number): AmendableValues {
  return amendableValues((name) => {
    const place = history.findIndex(({ change }, at) => at > index && change?.type === 'amended' && change.amended.includes(name))
    return place === -1 ? values[name] : (former?.[place]?.[name] ?? null)
  })
}

/** Makes each of the values. Pure. */
export function amendableValues(read: <Name extends keyof AmendableValues>(name: Name) => AmendableValues[Name]): AmendableValues {
  return Object.fromEntries(AMENDABLE_COLUMNS.map((name) => [name, read(name)])) as unknown as AmendableValues
}
