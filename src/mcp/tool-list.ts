import { type TObject, type TSchema, Type } from 'typebox'
import type { AppError } from '../errors.ts'
import { isBodyOptional } from '../http/openapi.ts'
import type { ListedRoute } from '../http/route-list.ts'
import { KEY_SCOPES, type Scope } from '../http/scopes.ts'
import { compileValidator } from '../http/validation.ts'

/** The effects of a change on the shop besides the resource itself. */
export interface Effects {
  stock: string
  money: string
  mails: string
}

const NONE = 'nothing'
const STOCK_OF_ARGUMENTS = { stock: 'what the arguments say', money: NONE, mails: NONE }
const NO_EFFECTS = { stock: NONE, money: NONE, mails: NONE }
const NEW_PRICES = 'new orders have the new price, placed orders keep theirs'
const RESENT = { stock: NONE, money: NONE, mails: 'the customer gets this mail' }
const NEW_TOTAL = { stock: NONE, money: 'the total of the order changes, as `outcome` shows', mails: NONE }

/** The changing operations that are tools. A new operation becomes a tool only with a row here. */
export const EFFECTS: Readonly<Record<string, Effects>> = {
  blockCustomer: NO_EFFECTS,
  unblockCustomer: NO_EFFECTS,
  createProduct: { stock: 'the units of `stock`, if it is given', money: NONE, mails: NONE },
  updateProduct: { stock: NONE, money: NEW_PRICES, mails: NONE },
  archiveProduct: { stock: 'its units cannot be ordered any more', money: NONE, mails: NONE },
  restoreProduct: { stock: 'its units can be ordered again', money: NONE, mails: NONE },
  updateProductGroup: NO_EFFECTS,
  createCategory: NO_EFFECTS,
  updateCategory: NO_EFFECTS,
  deleteCategory: NO_EFFECTS,
  placeProducts: NO_EFFECTS,
  setStock: STOCK_OF_ARGUMENTS,
  adjustStock: STOCK_OF_ARGUMENTS,
  moveOrder: {
    stock: 'a cancelled order gives its open units back, a returned one only with `restock`',
    money: 'nothing is charged or paid back',
    mails: 'the customer gets the mail of the new status',
  },
  shipLines: { stock: NONE, money: NONE, mails: 'the customer gets a mail' },
  cancelLines: { stock: 'the units go back', money: 'the total falls, as `outcome` shows', mails: 'the customer gets a mail' },
  returnLines: { stock: 'the units go back with `restock`', money: 'nothing is paid back', mails: 'the customer gets a mail' },
  addAdjustment: NEW_TOTAL,
  voidAdjustment: NEW_TOTAL,
  reportPayment: { stock: NONE, money: 'the store records what the provider has done, and moves no money', mails: NONE },
  refundOrder: { stock: NONE, money: 'the store records what was paid back, and moves no money', mails: NONE },
  amendOrder: { stock: 'see `outcome`', money: 'see `outcome`', mails: 'see `outcome`' },
  addOrderNote: NO_EFFECTS,
  retryMail: RESENT,
  sendMailAgain: RESENT,
}

const BLOCKED = ['blocked_at', 'blocked_reason']
/** The state's properties that a commit compares. Operations without a row here compare its version. */
const ABOUT: Readonly<Record<string, readonly string[]>> = {
  ...{ blockCustomer: BLOCKED, unblockCustomer: BLOCKED },
  // Its reference books it once, and units are sold meanwhile.
  adjustStock: [],
}

const MANY = 'Thousands of changes would be behind one preview.'
const UNSEEN = 'No operation reads one endpoint, so a preview would show nothing.'
const ENGINES = 'Readers of tables speak this protocol. queryLake answers an agent.'

/** The operations that API keys may call and that are not tools, each with the reason. */
export const LEFT_OUT: Readonly<Record<string, string>> = {
  createWebhook: 'Its answer has a secret, and it sends orders to an address of its own.',
  rotateWebhookSecret: 'Its answer has a secret.',
  updateWebhook: 'It sends orders to another address.',
  deleteWebhook: 'It cannot be undone.',
  ...{ enableWebhook: UNSEEN, disableWebhook: UNSEEN, testWebhook: UNSEEN, redeliverWebhooks: MANY },
  eraseCustomer: 'It cannot be undone.',
  startAudit: 'It runs a command over the whole store.',
  placeOrderForCustomer: 'A person on the phone confirms it, and its Idempotency-Key is a header.',
  quoteOrderForCustomer: 'It is of use only before `placeOrderForCustomer`.',
  importProducts: MANY,
  moveOrders: MANY,
  retryMails: MANY,
  getIcebergConfiguration: ENGINES,
  listIcebergNamespaces: ENGINES,
  getIcebergNamespace: ENGINES,
  listIcebergTables: ENGINES,
  loadIcebergTable: ENGINES,
}

/** It takes a body, and reads. */
const READING_POST = 'queryLake'
/** Public pages of the catalogue that agents need for the other tools. */
const PUBLIC = new Set(['listProducts', 'getProduct', 'listCategories'])

export interface Tool {
  name: string
  title: string
  description: string
  /** The parameters by their names, and `body` as the API accepts it. */
  input: TObject
  /** The effects are null for a tool that only reads. */
  effects: Effects | null
  route: ListedRoute
  /** The route that reads the changed resource; null if there is none. */
  target: ListedRoute | null
  /** The state's properties that a commit compares. Null means its version. */
  about: readonly string[] | null
  /** The reason for which the API would refuse these arguments. */
  findFault: (args: unknown) => AppError | undefined
}

/** Derives the tools from the routes. */
export function createTools(routes: readonly ListedRoute[]): Tool[] {
  return routes.flatMap((route) => {
    const { operationId: name = '', summary = '', description = '' } = described(route)
    const isForKeys = (KEY_SCOPES as readonly unknown[]).includes(route.access) && !Object.hasOwn(LEFT_OUT, name)
    const effects = route.method === 'GET' || name === READING_POST ? null : EFFECTS[name]
    if (route.method === 'HEAD' || name === '' || effects === undefined || !(isForKeys || PUBLIC.has(name))) return []
    const input = inputOf(route)
    const [sentence = ''] = /^.*?\.(?=\s|$)/s.exec(description) ?? []
    let validate: ReturnType<typeof compileValidator> | undefined
    return [
      {
        ...{ name, input, effects, route, about: ABOUT[name] ?? null },
        title: effects === null ? summary : `Preview: ${summary}`,
        description: `${effects === null ? '' : 'Changes nothing: shows what `commit` would do. '}${summary}. ${sentence}`.trim(),
        target: effects === null ? null : findTarget(route, routes),
        findFault(args) {
          validate ??= compileValidator({ schema: input, method: route.method, url: route.url })
          return (validate(args) as { error?: AppError }).error
        },
      },
    ]
  })
}

/** The tools of a key. */
export function toolsFor(tools: readonly Tool[], scopes: ReadonlySet<Scope>): Tool[] {
  return tools.filter(({ route: { access } }) => access === 'public' || scopes.has(access as Scope))
}

export function propertiesOf(schema: unknown): Record<string, TSchema> {
  return (schema as { properties?: Record<string, TSchema> } | undefined)?.properties ?? {}
}

/** A schema without examples, titles and what the store alone reads. */
export function withoutNotes(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withoutNotes)
  if (typeof schema !== 'object' || schema === null) return schema
  const isNote = (name: string, value: unknown) =>
    name.startsWith('x-') || name === 'examples' || (name === 'title' && typeof value === 'string')
  const members = Object.entries(schema).filter(([name, value]) => !isNote(name, value))
  return Object.fromEntries(members.map(([name, value]) => [name, withoutNotes(value)]))
}

/** A route's description in the document. */
function described({ schema }: ListedRoute) {
  return schema as { operationId?: string; summary?: string; description?: string }
}

function inputOf({ schema }: ListedRoute): TObject {
  const { preview: _, ...query } = propertiesOf(schema.querystring)
  const body = schema.body as TSchema | undefined
  const bodyMember: Record<string, TSchema> = body === undefined ? {} : { body: isBodyOptional(body) ? Type.Optional(body) : body }
  return Type.Object({ ...propertiesOf(schema.params), ...query, ...bodyMember }, { additionalProperties: false })
}

/** The nearest resource above a change that is no list. */
function findTarget({ url }: ListedRoute, routes: readonly ListedRoute[]): ListedRoute | null {
  for (let path = url; path.includes('/:'); path = path.slice(0, path.lastIndexOf('/'))) {
    const found = routes.find((route) => route.method === 'GET' && route.url === path)
    const name = found && described(found).operationId
    const isList = Object.hasOwn(propertiesOf(found?.schema.querystring), 'cursor')
    if (found !== undefined && name !== undefined && !isList && !Object.hasOwn(LEFT_OUT, name)) return found
  }
  return null
}
