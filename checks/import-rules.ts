import type { Import } from './imports.ts'

/**
 * The imports that a room's files may have at run time. A type may be imported from anywhere, because it is no
 * dependency of the program.
 */
interface Wall {
  /** The room: a folder of `src`, or some of its files. If two rooms match a file, the longer one counts. */
  room: string | readonly string[]
  /**
   * Allowed rooms, folders and files below `src`. The room itself and the shared files are allowed without being
   * listed.
   */
  may: readonly string[]
  reason: string
}

/** The client is published alone, so what it shares with the store is its own. */
const OF_THE_CLIENT = 'client/src/currency.ts'

const EVERYWHERE = [
  'errors.ts',
  'attributes.ts',
  'counted.ts',
  'encoding.ts',
  'event-time.ts',
  'language.ts',
  'loop.ts',
  'loopback.ts',
  'money.ts',
  'shop-time.ts',
  'source-amounts.ts',
  'spreadsheet-guard.ts',
  'subscribers.ts',
  'time-slice.ts',
  'traceparent.ts',
  'wake-signal.ts',
  'within-ms.ts',
]

/** Packages that only some rooms may use, with the reason. */
const PACKAGES: readonly { name: string; rooms: readonly string[]; reason: string }[] = [
  { name: 'fastify', rooms: ['http'], reason: 'Slices describe routes with the types of http/server.ts: one place knows the framework.' },
  {
    name: 'prom-client',
    rooms: ['operations'],
    reason: 'What is measured is reported through callbacks that app.ts passes: see docs/decisions/operations-metrics.md.',
  },
  {
    ...{ name: '@opentelemetry/api', rooms: ['operations'] },
    reason: 'Rooms report spans to the interface of operations/tracing.ts, so that nothing of OpenTelemetry is loaded when traces are off.',
  },
  { name: '@simplewebauthn/server', rooms: ['auth'], reason: 'Passkeys are factors of accounts; it is loaded at their first use.' },
  { name: 'nodemailer', rooms: ['mail'], reason: 'A mail is sent by a Mailer.' },
  { name: 'openid-client', rooms: ['auth'], reason: 'Only accounts know the providers of sign-ins.' },
  { name: '@duckdb/node-api', rooms: ['lake', 'audit', 'cli'], reason: 'Only the lake, its checks and its command read Parquet.' },
  {
    ...{ name: '@modelcontextprotocol/server', rooms: ['mcp'] },
    reason: 'Only agents speak this protocol; it is loaded by their first request.',
  },
  { name: '@aws-sdk/client-s3', rooms: ['lake'], reason: 'Object stores are behind LakeStore.' },
]

/** The walls between the rooms, from the bottom to the top. */
export const WALLS: readonly Wall[] = [
  { room: EVERYWHERE, may: [], reason: 'Shared files import nothing.' },
  { room: 'db', may: [], reason: 'db/ moves bytes and knows no word of the shop.' },
  { room: 'operations', may: [], reason: 'operations/ counts and asks through functions that app.ts passes, so it can be read alone.' },
  {
    room: ['config.ts', 'config'],
    may: ['db/addresses.ts', 'orders/order-status.ts'],
    reason: 'Configuration is data: it starts nothing.',
  },
  { room: 'http', may: ['db'], reason: 'http/ is the shell that slices plug into; if it knew one, no slice could be read alone.' },
  {
    room: 'activity',
    may: ['db', 'http'],
    reason: 'Every slice records what operators and keys change; the log knows none of them.',
  },
  { room: 'deliveries', may: ['db'], reason: 'What takes and stores deliveries does not know how they are made.' },
  {
    room: 'auth',
    may: ['db', 'http', 'activity'],
    reason: 'Accounts know nothing of what is sold, and publish nothing: the pipeline reacts to the commit.',
  },
  {
    room: 'catalogue',
    may: ['db', 'http', 'activity'],
    reason: 'The catalogue knows neither who buys nor what was ordered, and publishes nothing.',
  },
  { room: 'catalogue/purge', may: ['db', 'deliveries', 'catalogue'], reason: 'Purging a cache is a delivery that follows a commit.' },
  {
    room: 'orders',
    may: [
      'db',
      'http',
      'activity',
      'catalogue/stock.ts',
      'catalogue/products.ts',
      'catalogue/apply-due-changes.ts',
      'catalogue/offered-prices.ts',
    ],
    reason: 'Orders use the stock and the products of the catalogue, take the caller from http/caller.ts, and publish nothing.',
  },
  {
    room: 'customers',
    may: ['db', 'http', 'activity', 'auth', 'catalogue', 'orders'],
    reason: 'What a person has here, and what an operator searches, is accounts, catalogue and orders together: none of them has it all.',
  },
  {
    room: [
      'orders/order-status.ts',
      'orders/order-state.ts',
      'orders/order-changes.ts',
      'orders/order-amendments.ts',
      'orders/order-charges.ts',
      'orders/order-columns.ts',
      'orders/line-attributes.ts',
      'orders/postal-address.ts',
      'orders/vat-number.ts',
      'orders/events.ts',
      'orders/event-defects.ts',
      'orders/tracking.ts',
    ],
    may: [],
    reason: 'A pure file does no I/O: it is the part of the order rules that can be read and tested alone.',
  },
  {
    room: ['catalogue/catalogue-event.ts', 'catalogue/catalogue-event-defects.ts'],
    may: ['catalogue/catalogue-event.ts'],
    reason: 'A pure file does no I/O: it is the part of the catalogue that everything downstream knows.',
  },
  {
    room: 'topic',
    may: ['db', 'orders/events.ts', 'orders/event-defects.ts', 'catalogue/catalogue-event.ts', 'catalogue/catalogue-event-defects.ts'],
    reason: 'A slice is known by its events only: they are the contract with everything downstream.',
  },
  {
    room: 'change-stream',
    may: [
      ...['db', 'topic', 'orders/events.ts', 'orders/event-defects.ts', 'orders/order-column-sql.ts'],
      ...['catalogue/catalogue-event.ts', 'catalogue/catalogue-event-defects.ts'],
    ],
    reason: 'The pipeline starts at the committed row; how it came there is not its business.',
  },
  {
    room: 'mail',
    may: ['db', 'http', 'activity', 'deliveries', 'topic', 'orders/events.ts', 'orders/event-defects.ts', 'catalogue/sold-out-products.ts'],
    reason: 'A subscriber knows the topic and its own tables; no subscriber knows another.',
  },
  {
    room: 'webhooks',
    may: ['db', 'http', 'activity', 'deliveries', 'topic', 'orders/events.ts', 'catalogue/catalogue-event.ts'],
    reason: 'A subscriber knows the topic and its own tables; no subscriber knows another.',
  },
  {
    room: 'lake',
    may: ['db', 'http', 'activity', 'topic', 'orders/events.ts', 'catalogue/catalogue-event.ts'],
    reason: 'A subscriber knows the topic and its own files; no subscriber knows another.',
  },
  {
    room: 'audit',
    may: [
      ...['db', 'http', 'activity', 'deliveries', 'topic', 'change-stream', 'lake', 'catalogue/catalogue-event.ts'],
      ...['orders/events.ts', 'orders/event-defects.ts', 'orders/order-column-sql.ts'],
    ],
    reason: 'verify and replay compare what the rooms of the pipeline store, through their readers, and change no slice.',
  },
  {
    room: 'figures',
    may: [
      ...['db', 'http', 'orders/order-status.ts', 'orders/order-state.ts', 'orders/order-charges.ts', 'orders/order-changes.ts'],
      'orders/unpaid-orders.ts',
    ],
    reason: 'Figures are sums of what the tables hold, and no room waits for a figure.',
  },
  {
    room: 'customers/page',
    may: [],
    reason: 'The page runs in a browser: it knows the API, by the types of its document, and nothing of the program.',
  },
  {
    room: 'mcp',
    may: ['http', 'auth/encryption.ts'],
    reason: 'Agents call the routes of the API, so access, limits and activities are those of the API: no use case is called from here.',
  },
  {
    room: ['app.ts', 'app'],
    may: [
      'db',
      'operations',
      'config.ts',
      'http',
      'deliveries',
      'auth',
      'catalogue',
      'orders',
      'topic',
      'change-stream',
      'mail',
      'webhooks',
      'lake',
      'audit',
      'figures',
      'activity',
      'customers',
      'mcp',
    ],
    reason: 'The composition root is what the command line and the tests start; it knows neither.',
  },
  {
    room: 'move-in',
    may: [
      ...['db', 'activity', 'auth', 'catalogue', 'orders'],
      ...['http/json-limits.ts', 'http/text-length.ts', 'http/link-in-text.ts', 'http/storable-text.ts'],
      'http/normalize-input.ts',
    ],
    reason: 'What is moved in becomes rows of the slices; whatever follows from them follows from the commit.',
  },
  {
    room: 'demo',
    may: ['db', 'activity', 'auth', 'catalogue', 'orders', 'figures/roll-up-orders.ts'],
    reason: 'The invented customers of a demo do what a client does, through the use cases that the API calls.',
  },
  {
    room: 'cli',
    may: [
      'activity',
      'http/scopes.ts',
      'demo',
      'http/scopes.ts',
      'move-in',
      'app.ts',
      'app',
      'db',
      'config.ts',
      'config',
      'deliveries',
      'auth',
      'catalogue',
      'orders',
      'topic',
      'mail',
      'webhooks',
      'lake',
      'audit',
    ],
    reason: 'Commands call use cases; nothing calls a command but main.ts.',
  },
  { room: 'main.ts', may: ['cli'], reason: 'main.ts is the process: arguments in, exit status out.' },
]

const CONFIGURATION = 'Only app/ and cli/ read the configuration; take what you need as an argument.'

/** The wrong imports among these, each as a line with the reason. */
export function findWrongImports(imports: readonly Import[], packages: readonly { from: string; name: string }[] = []): string[] {
  const wrong = imports.flatMap(({ from, to, isTypeOnly }) => {
    const wall = findWall(from)
    if (wall === null) return [`${from}: belongs to no room of checks/import-rules.ts`]
    const allowed = [...roomsOf(wall), ...wall.may, ...EVERYWHERE]
    if (isTypeOnly || to === OF_THE_CLIENT || allowed.some((place) => isIn(to, place))) return []
    return [`${from} imports ${to.slice(4)}. ${isIn(to, 'config.ts') || isIn(to, 'config') ? CONFIGURATION : wall.reason}`]
  })
  const foreign = packages.flatMap(({ from, name }) => {
    const rule = PACKAGES.find((one) => one.name === name)
    return rule === undefined || rule.rooms.some((room) => isIn(from, room)) ? [] : [`${from} imports ${name}. ${rule.reason}`]
  })
  return [...wrong, ...foreign]
}

function findWall(path: string): Wall | null {
  const fitting = WALLS.flatMap((wall) => roomsOf(wall).flatMap((room) => (isIn(path, room) ? [{ wall, length: room.length }] : [])))
  return fitting.toSorted((a, b) => b.length - a.length)[0]?.wall ?? null
}

function roomsOf({ room }: Wall): readonly string[] {
  return typeof room === 'string' ? [room] : room
}

function isIn(path: string, place: string): boolean {
  return path === `src/${place}` || path.startsWith(`src/${place}/`)
}

/** The cycles among these imports, including those of types, each as the files from one to itself. */
export function findCycles(imports: readonly Import[]): string[][] {
  const next = Map.groupBy(imports, ({ from }) => from)
  const finished = new Set<string>()
  const cycles: string[][] = []
  const visit = (file: string, path: string[]): void => {
    const start = path.indexOf(file)
    if (start >= 0) cycles.push([...path.slice(start), file])
    if (start >= 0 || finished.has(file)) return
    for (const { to } of next.get(file) ?? []) visit(to, [...path, file])
    finished.add(file)
  }
  for (const file of next.keys()) visit(file, [])
  return cycles
}
