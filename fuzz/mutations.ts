import fc from 'fast-check'
import type { Operation, Schema } from './contract.ts'
import { copyOf, fromValue, type Json, Members, type Slot, slotsOf, toText, Verbatim } from './json-tree.ts'
import type { Known } from './known.ts'
import { encodePart, type FuzzRequest, queryPair } from './request.ts'
import { FRAGMENTS } from './values.ts'

/** One change of a request: the kind, the place and the value. */
export interface Mutation {
  kind: keyof typeof BODY_CHANGES | keyof typeof QUERY_CHANGES | keyof typeof HEADER_CHANGES | 'path'
  at: number
  name: string
  junk: Junk
}

interface Junk {
  json: Json
  text: string
}

interface Draft extends FuzzRequest {
  /** The body while it is a tree. */
  root: Root | null
}

class Root implements Slot {
  value: Json

  constructor(value: Json) {
    this.value = value
  }

  set(value: Json): void {
    this.value = value
  }
}

const MAX_MUTATIONS = 100
const HALF_A_PAIR = '\ud83d'

type Change = (draft: Draft, at: number, name: string, junk: Junk) => void

function pick<T>(values: readonly T[], at: number): T | undefined {
  return values[at % values.length]
}

function objectsOf(draft: Draft): Members[] {
  return draft.root === null ? [] : slotsOf(draft.root).flatMap(({ value }) => (value instanceof Members ? [value] : []))
}

const slotAt = (draft: Draft, at: number) => (draft.root === null ? undefined : pick(slotsOf(draft.root), at))

const BODY_CHANGES = {
  unknownName: (draft, at, name, { json }) => void pick(objectsOf(draft), at)?.pairs.push([name, json]),
  drop(draft, at) {
    const object = pick(objectsOf(draft), at)
    object?.pairs.splice(at % Math.max(1, object.pairs.length), 1)
  },
  replace: (draft, at, _name, { json }) => slotAt(draft, at)?.set(json),
  // Changes a leaf. A replacement near the root would leave nothing of the rest to reach the code behind.
  replaceLeaf(draft, at, _name, { json }) {
    const leaves =
      draft.root === null ? [] : slotsOf(draft.root).filter(({ value }) => !(value instanceof Members) && !Array.isArray(value))
    pick(leaves, at)?.set(json)
  },
  asText(draft, at) {
    const slot = slotAt(draft, at)
    if (slot !== undefined && typeof slot.value !== 'string') slot.set(toText(slot.value))
  },
  nextNumber(draft, at) {
    const numbers = draft.root === null ? [] : slotsOf(draft.root).filter(({ value }) => typeof value === 'number')
    const slot = pick(numbers, at)
    slot?.set((slot.value as number) + (pick([1, -1, 0.5, 1e300], at) ?? 1))
  },
  inText(draft, at, _name, { text }) {
    const texts = draft.root === null ? [] : slotsOf(draft.root).filter(({ value }) => typeof value === 'string')
    const slot = pick(texts, at)
    slot?.set(pick([`${slot.value}${text}`, `${text}${slot.value}`, `${slot.value}\0`, `${HALF_A_PAIR}${slot.value}`], at) ?? '')
  },
  twice(draft, at, _name, { json }) {
    const object = pick(objectsOf(draft), at)
    const pair = object === undefined ? undefined : pick(object.pairs, at)
    if (object === undefined || pair === undefined) return
    if (at % 2 === 0) object.pairs.push([pair[0], json])
    else object.pairs.unshift([pair[0], json])
  },
  huge(draft, at, _name, { json }) {
    const arrays = draft.root === null ? [] : slotsOf(draft.root).filter(({ value }) => Array.isArray(value))
    const slot = pick(arrays, at)
    const array = slot?.value as Json[] | undefined
    slot?.set(Array.from({ length: [11, 101, 1_001, 3_000][at % 4] ?? 1 }, () => copyOf(array?.[0] ?? json)))
  },
  nest(draft, at, _name) {
    const depth = [1, 2, 100, 3_000][at % 4] ?? 1
    const slot = slotAt(draft, at)
    if (slot === undefined) return
    const text = toText(slot.value)
    slot.set(
      new Verbatim(
        at % 2 === 0 ? `${'['.repeat(depth)}${text}${']'.repeat(depth)}` : `${'{"a":'.repeat(depth)}${text}${'}'.repeat(depth)}`,
      ),
    )
  },
  brokenText(draft, at, _name, { text }) {
    const whole = draft.root === null ? (draft.bodyText ?? '') : toText(draft.root.value)
    const broken = [
      whole.slice(0, at % (whole.length + 1)),
      `${whole}${text}`,
      `\ufeff${whole}`,
      '',
      ' ',
      `${whole}${whole}`,
      whole.replaceAll('"', "'"),
    ]
    draft.root = null
    draft.bodyText = pick(broken, at) ?? ''
  },
  brokenBytes(draft, at) {
    const text = draft.root === null ? (draft.bodyText ?? '') : toText(draft.root.value)
    const bytes = Buffer.from(text)
    if (bytes.length === 0) return
    const index = at % bytes.length
    draft.bodyBytes = Buffer.concat([bytes.subarray(0, index), Buffer.from([0xff, 0xc0]), bytes.subarray(index)])
  },
} satisfies Record<string, Change>

const QUERY_CHANGES = {
  unknownParameter: (draft, _at, name, { text }) => void draft.query.push(queryPair(name, text)),
  parameterTwice(draft, at, _name, { text }) {
    const pair = pick(draft.query, at)
    if (pair !== undefined) draft.query.push(at % 2 === 0 ? { ...pair } : queryPair(pair.name, text))
  },
  parameter(draft, at, _name, { text }) {
    const parameter = pick(draft.operation.queryParameters, at)
    if (parameter === undefined) return
    draft.query = [...draft.query.filter(({ name }) => name !== parameter.name), queryPair(parameter.name, text)]
  },
  undecodable(draft, at) {
    const name = pick(draft.operation.queryParameters, at)?.name ?? 'q'
    draft.query.push({ name, value: null, raw: `${name}=${pick(['%', '%zz', '%ff', '%c0%80', '%ed%a0%80', '%u0041'], at)}` })
  },
  otherEncoding(draft, at) {
    const pair = pick(draft.query, at)
    if (pair === undefined || pair.value === null) return
    const everyByte = (text: string) => [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('')
    pair.raw =
      at % 2 === 0
        ? `${everyByte(pair.name)}=${everyByte(pair.value)}`
        : `${encodePart(pair.name)}=${encodePart(pair.value).replaceAll('%20', '+')}`
  },
  brackets(draft, at, _name, { text }) {
    const name = pick(draft.operation.queryParameters, at)?.name ?? 'q'
    draft.query.push(queryPair(`${name}${pick(['[]', '[0]', '.a', '[$ne]'], at)}`, text))
  },
} satisfies Record<string, Change>

const HEADER_CHANGES = {
  condition: (draft, _at, _name, { text }) => void draft.headers.push(['if-match', headerText(text)]),
  conditionTwice: (draft, at) => void draft.headers.push(['if-match', `"${at}"`], ['if-match', '*']),
  idempotencyKey: (draft, at, _name, { text }) =>
    void draft.headers.push(['idempotency-key', pick([headerText(text), '', '""', 'k'.repeat(256), '"\\"'], at) ?? '']),
  noneMatch: (draft, _at, _name, { text }) => void draft.headers.push(['if-none-match', headerText(text)]),
  requestId: (draft, _at, _name, { text }) => void draft.headers.push(['x-request-id', headerText(text)]),
  trace: (draft, _at, _name, { text }) => void draft.headers.push(['traceparent', headerText(text)]),
  encoding: (draft, at) =>
    void draft.headers.push(['accept-encoding', pick(['br', 'gzip;q=0, *', 'gzip, gzip', ',,,', 'identity;q=0'], at) ?? '']),
  method: (draft, at) => void draft.headers.push(['x-http-method-override', pick(['DELETE', 'PUT'], at) ?? '']),
  origin: (draft, _at, _name, { text }) => void draft.headers.push(['origin', headerText(text)]),
  large: (draft, at) => void draft.headers.push([`x-large-${at % 7}`, 'x'.repeat(pick([1_000, 9_000, 20_000], at) ?? 1)]),
  contentType(draft, at) {
    const types = [
      'text/plain',
      'application/x-www-form-urlencoded',
      'application/json; charset=latin1',
      'APPLICATION/JSON',
      'application/json;',
      'a',
      '',
    ]
    draft.contentType = pick([...types, 'application/x-ndjson', 'multipart/form-data; boundary=x', null], at) ?? null
  },
  bodyOfNone(draft, at) {
    if (draft.operation.body !== null) return
    draft.bodyText = pick(['{}', 'null', '{"a":', 'x'], at) ?? ''
    draft.contentType = pick(['application/json', 'text/plain', null], at) ?? null
  },
  token(draft, at, _name, { text }) {
    const { account } = draft
    if (!draft.operation.isSecured) return
    const token = account?.token ?? ''
    const tampered = `${token.slice(0, -2)}${token.endsWith('AA') ? 'BB' : 'AA'}`
    draft.authorization =
      pick(['', `Bearer ${headerText(text)}`, `Basic ${token}`, 'Bearer', `Bearer ${tampered}`, `Bearer ${token}, Bearer ${token}`], at) ??
      ''
    draft.isStranger = true
  },
} satisfies Record<string, Change>

/** Removes bytes that cannot be in a header's value. They would end the request early or become another header. */
function headerText(text: string): string {
  return Buffer.from(text.toWellFormed())
    .toString('latin1')
    .replaceAll(/[\r\n\0]/g, '?')
}

/** Applies all mutations to a request. */
export function mutate(request: FuzzRequest, mutations: readonly Mutation[]): FuzzRequest {
  const draft: Draft = {
    ...request,
    query: request.query.map((pair) => ({ ...pair })),
    headers: [...request.headers],
    root: null,
    isOdd: true,
  }
  if (request.bodyText !== null && request.operation.body?.schema !== null) {
    draft.root = new Root(fromValue(JSON.parse(request.bodyText)))
  }
  const changes: Record<string, Change> = { ...BODY_CHANGES, ...QUERY_CHANGES, ...HEADER_CHANGES, path: changePath }
  for (const { kind, at, name, junk } of mutations) changes[kind]?.(draft, at, name, { ...junk, json: copyOf(junk.json) })
  const { root, ...mutated } = draft
  return root === null ? mutated : { ...mutated, bodyText: toText(root.value) }
}

const changePath: Change = (draft, at, _name, { text }) => {
  const parameter = pick(draft.operation.pathParameters, at)
  if (parameter === undefined) return
  const id = draft.pathValues[parameter.name] ?? ''
  const other = pick(
    [
      text === '' || /^[./]+$/.test(text) ? 'x' : text,
      `${id}0`,
      id.replaceAll('-', ''),
      `{${id}}`,
      `urn:uuid:${id}`,
      `${id}\0`,
      'x'.repeat(500),
      id.toUpperCase(),
    ],
    at,
  )
  draft.pathValues = { ...draft.pathValues, [parameter.name]: other ?? id }
}

/** One to a hundred mutations that can change something in this operation's requests. */
export function mutationsOf(operation: Operation, known: Known): fc.Arbitrary<Mutation[]> {
  const inBody =
    operation.body === null
      ? []
      : (Object.keys(operation.body.schema === null ? { brokenText: 0, brokenBytes: 0 } : BODY_CHANGES) as Mutation['kind'][])
  const inQuery = operation.queryParameters.length === 0 ? [] : (Object.keys(QUERY_CHANGES) as Mutation['kind'][])
  const inPath: Mutation['kind'][] = operation.pathParameters.length === 0 ? [] : ['path']
  const kinds = [...inBody, ...inBody, ...inQuery, ...inQuery, ...inPath, ...inPath, ...(Object.keys(HEADER_CHANGES) as Mutation['kind'][])]
  const mutation: fc.Arbitrary<Mutation> = fc.record({
    kind: fc.constantFrom(...kinds),
    at: fc.nat(10_000),
    name: names,
    junk: junkFor(operation, known),
  })
  // Many mutations of one kind beside a few others, because eight unknown names once made validation accept anything.
  const flood = fc.array(
    mutation.map(
      (one): Mutation => ({
        ...one,
        kind: inBody.includes('unknownName') ? 'unknownName' : inQuery.length > 0 ? 'unknownParameter' : one.kind,
      }),
    ),
    { minLength: 1, maxLength: MAX_MUTATIONS, size: 'max' },
  )
  return fc.oneof(
    { arbitrary: fc.array(mutation, { minLength: 1, maxLength: 1 }), weight: 4 },
    { arbitrary: fc.array(mutation, { minLength: 2, maxLength: 10, size: 'max' }), weight: 2 },
    { arbitrary: fc.array(mutation, { minLength: 11, maxLength: MAX_MUTATIONS, size: 'max' }), weight: 1 },
    { arbitrary: flood, weight: 2 },
    { arbitrary: fc.tuple(flood, fc.array(mutation, { minLength: 1, maxLength: 2 })).map((both) => both.flat()), weight: 2 },
  )
}

const NAMES = [
  '__proto__',
  'constructor',
  'toString',
  'price',
  'id',
  'user_id',
  'role',
  'status',
  'total',
  'version',
  '',
  ' ',
  'a.b',
  'a/b',
  'a~b',
  'ä',
  '\0',
  '$ref',
  'x'.repeat(2_000),
]
const names = fc.oneof(
  { arbitrary: fc.nat(999).map((number) => `unknown_${number}`), weight: 4 },
  { arbitrary: fc.constantFrom(...NAMES, ...FRAGMENTS), weight: 1 },
)

const NUMBERS = [0, -1, 1, -0.5, 1.5, 101, 2 ** 31, 2 ** 53, 2 ** 53 + 2, 1e21, -1e308, 0.1 + 0.2]
const SPELLINGS = ['1e400', '-1e400', '1.0', '1E2', '-0', '9007199254740993', '01', '+1', '.5', 'NaN', 'undefined', '0x1', '1_000']

function junkFor(operation: Operation, known: Known): fc.Arbitrary<Junk> {
  const bounds = boundsOf([
    operation.body?.schema ?? {},
    ...[...operation.queryParameters, ...operation.pathParameters].map(({ schema }) => schema),
  ])
  const numbers = fc.constantFrom(...NUMBERS, ...bounds.flatMap((bound) => [bound - 1, bound, bound + 1]))
  const lengths = bounds.filter((bound) => bound >= 0 && bound <= 20_000).flatMap((bound) => [Math.max(0, bound - 1), bound, bound + 1])
  const long =
    lengths.length === 0
      ? fc.constant('x')
      : fc.tuple(fc.constantFrom(...lengths), fc.constantFrom('x', '🙂', 'ﷺ', ' ')).map(([length, letter]) => letter.repeat(length))
  const cursors = known.pages.flatMap(({ cursor }) => [cursor, `${cursor.slice(0, -1)}A`, `${cursor}A`, cursor.slice(1)])
  const ids = [...known.products, ...known.orders, ...known.sessions].map(({ id }) => id)
  const odd = fc.constantFrom(
    ...FRAGMENTS,
    '',
    ' ',
    '\0',
    `a${HALF_A_PAIR}`,
    '\udc00',
    '\t',
    '\u0001',
    '\u2028',
    'true',
    '1',
    '-1',
    '1.5',
    '1e1',
    ...SPELLINGS,
    ...cursors,
    ...ids,
  )
  const texts = fc.oneof(
    { arbitrary: odd, weight: 4 },
    { arbitrary: fc.string({ unit: 'binary', maxLength: 30 }), weight: 1 },
    { arbitrary: long, weight: 2 },
    { arbitrary: numbers.map(String), weight: 2 },
  )
  const json: fc.Arbitrary<Json> = fc.oneof(
    { arbitrary: texts, weight: 3 },
    { arbitrary: numbers, weight: 3 },
    { arbitrary: fc.constantFrom<Json[]>(null, true, false, [], [[]], new Members([])), weight: 2 },
    { arbitrary: fc.constantFrom(...SPELLINGS).map((spelling) => new Verbatim(spelling)), weight: 1 },
    { arbitrary: fc.jsonValue({ maxDepth: 2 }).map(fromValue), weight: 1 },
  )
  return fc.record({ json, text: texts })
}

/** Every number that a schema uses as a bound. */
function boundsOf(schemas: readonly Schema[]): number[] {
  const found = new Set<number>()
  const waiting: unknown[] = [...schemas]
  for (let node = waiting.pop(); node !== undefined; node = waiting.pop()) {
    if (typeof node !== 'object' || node === null) continue
    for (const [name, value] of Object.entries(node)) {
      if (/^(min|max)/.test(name) && typeof value === 'number') found.add(value)
      else waiting.push(value)
    }
  }
  return [...found]
}
