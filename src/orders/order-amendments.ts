import type { HistoryEntry } from './order-changes.ts'
import type { ShippingAddress } from './postal-address.ts'

/** What an amendment replaces in an order, by the names of the columns. */
export interface AmendableValues {
  shipping_address: ShippingAddress | null
  email: string | null
}

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
  const valueThen = <Name extends keyof AmendableValues>(name: Name): AmendableValues[Name] => {
    const place = history.findIndex(({ change }, at) => at > index && change?.type === 'amended' && change.amended.includes(name))
    return place === -1 ? values[name] : (former?.[place]?.[name] ?? null)
  }
  return { shipping_address: valueThen('shipping_address'), email: valueThen('email') }
}
