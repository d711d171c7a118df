import { type Static, type TObject, type TOptional, type TSchema, Type } from 'typebox'
import { AttributesInput, AttributesSchema } from '../attributes.ts'
import type { ItemAttributes } from './line-attributes.ts'
import type { FormerValues } from './order-amendments.ts'
import type { OrderStatus } from './order-status.ts'
import { ShippingAddressSchema } from './postal-address.ts'
import { VatNumberInput } from './vat-number.ts'

export type ColumnType = 'uuid' | 'bigint' | 'integer' | 'text' | 'json' | 'jsonb' | 'timestamptz'

export interface OrderColumn {
  type: ColumnType
  /** Personal data is erased from the order and its events, and it never reaches the lake. */
  isPersonal: boolean
}

/** A column whose value comes with `POST /orders`. Row, request, answers and events use the same name. */
export interface GivenColumn extends OrderColumn {
  input: TSchema
  /** Schema in answers and events. A column of a later release is optional, because older stored events lack it. */
  shown: TSchema
  example: unknown
}

const GIVEN_COLUMNS = {
  client_reference: {
    type: 'text',
    isPersonal: false,
    input: Type.String({
      minLength: 1,
      maxLength: 100,
      description:
        "The client's own number for the order. Unique among the caller's orders, and for a day among equal orders of guests with one address. The data lake keeps it, so it must not contain personal data.",
    }),
    shown: Type.Union([Type.String(), Type.Null()]),
    example: 'cart-1843',
  },
  shipping_address: {
    type: 'jsonb',
    isPersonal: true,
    input: ShippingAddressSchema,
    shown: Type.Union([ShippingAddressSchema, Type.Null()]),
    example: { name: 'Ada Lovelace', line1: '12 St James Square', city: 'London', postal_code: 'SW1Y 4JH', country: 'GB' },
  },
  billing_address: {
    type: 'jsonb',
    isPersonal: true,
    input: ShippingAddressSchema,
    shown: Type.Optional(
      Type.Union([ShippingAddressSchema, Type.Null()], { description: 'Absent if the invoice goes to `shipping_address`.' }),
    ),
    example: {
      ...{ name: 'Ada Lovelace', company: 'Analytical Engines Ltd', line1: '5 Savile Row', city: 'London' },
      ...{ postal_code: 'W1S 3PB', country: 'GB' },
    },
  },
  vat_number: {
    type: 'text',
    isPersonal: true,
    input: VatNumberInput,
    shown: Type.Optional(Type.Union([Type.String(), Type.Null()], { description: "The customer's VAT number. Absent if there is none." })),
    example: 'GB123456789',
  },
  note: {
    type: 'text',
    isPersonal: true,
    input: Type.String({ minLength: 1, maxLength: 1_000 }),
    shown: Type.Union([Type.String(), Type.Null()]),
    example: 'Please ring twice.',
  },
  attributes: {
    type: 'json',
    isPersonal: false,
    input: AttributesInput,
    shown: Type.Optional({ ...AttributesSchema, description: 'The attributes with which the order was placed. Absent if there are none.' }),
    example: { channel: 'app', is_gift: false },
  },
} as const satisfies Readonly<Record<string, GivenColumn>>

/** The database table also has `product_ids`, which only serves an index. */
export const ORDER_COLUMNS = {
  id: column<string>('uuid'),
  number: column<number>('bigint'),
  user_id: column<string>('uuid'),
  status: column<OrderStatus>('text'),
  items: column<unknown>('json'),
  total_amount: column<number>('bigint'),
  currency: column<string>('text'),
  ...GIVEN_COLUMNS,
  // Answers and events have them in `items`.
  item_attributes: personal<ItemAttributes | null>('json'),
  // Amendments alone write these columns, and events leave them out.
  email: personal<string | null>('text'),
  former_values: personal<FormerValues | null>('jsonb'),
  version: column<number>('integer'),
  status_history: column<unknown>('jsonb'),
  traceparent: column<string | null>('text'),
  created_at: column<Date>('timestamptz'),
  updated_at: column<Date>('timestamptz'),
}

function column<T>(type: ColumnType): OrderColumn & { value?: T } {
  return { type, isPersonal: false }
}

function personal<T>(type: ColumnType): OrderColumn & { value?: T } {
  return { type, isPersonal: true }
}

type Columns = typeof ORDER_COLUMNS
type Given = typeof GIVEN_COLUMNS
type NameWith<T> = { [K in keyof Given]: Given[K] extends T ? K : never }[keyof Given]
export type PersonalColumn = NameWith<{ isPersonal: true }>
export type LaterColumn = NameWith<{ shown: { '~optional': true } }> | 'item_attributes' | 'email' | 'former_values'

export type StoredRow = {
  [K in keyof Columns]: K extends keyof Given ? Static<Given[K]['shown']> | null : Columns[K] extends { value?: infer T } ? T : never
}

type Camel<S extends string> = S extends `${infer Head}_${infer Tail}` ? `${Head}${Capitalize<Camel<Tail>>}` : S
export type GivenMembers = { [K in keyof Given as Camel<K>]: StoredRow[K] }

type ShownProperties = { [K in keyof Given]: Given[K]['shown'] }
type InputProperties = { [K in keyof Given]: TOptional<Given[K]['input']> }
export type ShownGiven = Static<TObject<ShownProperties>>

const mapGiven = (map: (column: GivenColumn) => unknown) =>
  Object.fromEntries(Object.entries(GIVEN_COLUMNS).map(([name, column]) => [name, map(column)]))
export const SHOWN_PROPERTIES = mapGiven(({ shown }) => shown) as ShownProperties
export const INPUT_PROPERTIES = mapGiven(({ input }) => Type.Optional(input)) as InputProperties
export const GIVEN_EXAMPLES = mapGiven(({ example }) => example) as { [K in keyof Given]: Given[K]['example'] }

const MEMBERS = Object.entries<GivenColumn>(GIVEN_COLUMNS).map(([name, { shown }]) => ({
  name: name as keyof Given,
  member: name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase()) as keyof GivenMembers,
  isOmitted: Type.IsOptional(shown),
}))

export function toGiven(source: { readonly [K in keyof Given]?: StoredRow[K] | undefined }): GivenMembers {
  const given: Record<string, unknown> = {}
  for (const { name, member } of MEMBERS) given[member] = source[name] ?? null
  return given as GivenMembers
}

export function showGiven(source: GivenMembers): ShownGiven {
  const shown: Record<string, unknown> = {}
  for (const { name, member, isOmitted } of MEMBERS) {
    if (!isOmitted || source[member] !== null) shown[name] = source[member]
  }
  return shown as ShownGiven
}

export function pickGiven(source: GivenMembers): GivenMembers {
  const given: Record<string, unknown> = {}
  for (const { member } of MEMBERS) given[member] = source[member]
  return given as GivenMembers
}
