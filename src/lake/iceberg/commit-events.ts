import { createHash, randomBytes } from 'node:crypto'
import type { DuckDBConnection } from '@duckdb/node-api'
import { findDamage, REMEDY } from '../find-damage.ts'
import { makeSpillPath, withDuckDB } from '../lake-database.ts'
import { type FileRange, nameOf, padSequence, parseName, splitSuperseded } from '../lake-names.ts'
import { type LakeFile, LakeFileGone, type LakeStore } from '../lake-store.ts'
import { listLake } from '../list-files.ts'
import { type Change, commitSnapshot, locationsOf, readBase, type TableBase } from './commit-snapshot.ts'
import { describeFile } from './describe-file.ts'
import { EVENT_TABLES, type LakeTableDefinition } from './lake-table.ts'
import type { DataFile, ManifestEntry } from './manifest.ts'
import { TableStore } from './table-store.ts'

export interface CommitReport {
  snapshots: number
  /** Files that the table lacks because they are damaged, by name with the reason and how to repair them. */
  damaged: ReadonlyMap<string, string>
}

export interface CommitOptions {
  now?: () => Date
  /** Registers those files again that the table has and that are gone or damaged, at the cost of reading all of them. */
  checksFiles?: boolean
  /** Ends it before the next file; what is committed stays. */
  signal?: AbortSignal | undefined
  /**
   * Called with each file that was taken out of a table because it is gone, and no other file has its events. Once: the next commit finds
   * nothing to take out.
   */
  onLost?: (name: string) => void
}

const MAX_ATTEMPTS = 10
/** The most files in one snapshot, which is what a killed process has to repeat. */
const MAX_FILES = 500

/** Brings the tables of events to what the lake's files are now. A lake without files of the catalogue gets no table of it. */
export async function commitEvents(store: LakeStore, options: CommitOptions = {}): Promise<CommitReport> {
  const reports: CommitReport[] = []
  for (const table of EVENT_TABLES) reports.push(await commitTable(store, table, options))
  return {
    snapshots: reports.reduce((sum, { snapshots }) => sum + snapshots, 0),
    damaged: new Map(reports.flatMap(({ damaged }) => [...damaged])),
  }
}

/**
 * Brings a table of events to what the files of its dataset are now, in one or more snapshots. The lake's names decide which files count
 * (decision 0052), and the table follows them, so it can be done at any time, by several processes, and again after a kill. See decision 0270.
 */
async function commitTable(
  store: LakeStore,
  definition: LakeTableDefinition,
  { now = () => new Date(), checksFiles = false, signal, onLost = () => {} }: CommitOptions,
): Promise<CommitReport> {
  const table = new TableStore(store, definition.name)
  const damaged = new Map<string, string>()
  const read = new Map<string, boolean>()
  for (let snapshots = 0, failures = 0; ; ) {
    // The order matters: a listing that is newer than the base cannot take back what another process has committed.
    const base = await readBase(table)
    const files = splitSuperseded(await listLake(store, definition.dataset)).current
    const present = checksFiles ? await table.findSound(locationsOf(base), read) : null
    const plan = planChange(registeredFiles(table, base, present), files, new Set(damaged.keys()))
    if (plan === null) return { snapshots, damaged }
    try {
      if (await commitPlan({ store, table, definition, damaged, now: now(), signal }, base, plan)) {
        for (const { range } of plan.removed) if (!files.some(({ name }) => overlaps(range, name))) onLost(nameOf(range))
        snapshots += 1
        failures = 0
        continue
      }
    } catch (error) {
      if (!(error instanceof LakeFileGone)) throw error
    }
    if (++failures === MAX_ATTEMPTS) throw new Error('other processes keep changing the table of the lake')
  }
}

/** The lake's files from before a time, in milliseconds since 1970, that their table lacks. Reads no file of the lake. */
export async function findLateFiles(store: LakeStore, dueBefore: number): Promise<{ table: string; file: string }[]> {
  const late: { table: string; file: string }[] = []
  for (const { name, dataset } of EVENT_TABLES) {
    const table = new TableStore(store, name)
    const registered = registeredFiles(table, await readBase(table), null)
    const plan = planChange(registered, splitSuperseded(await listLake(store, dataset)).current, new Set())
    late.push(...(plan?.added ?? []).filter(({ storedAt }) => storedAt < dueBefore).map((file) => ({ table: name, file: file.name })))
  }
  return late
}

/** Whether a table of events was written before. */
export async function hasEventTables(store: LakeStore): Promise<boolean> {
  for (const { name } of EVENT_TABLES) if ((await new TableStore(store, name).read()).newest !== null) return true
  return false
}

interface Registered {
  known: RegisteredFile[]
  /** Files that this store has not registered. */
  strange: DataFile[]
}

function registeredFiles(table: TableStore, { manifests }: TableBase, present: ReadonlySet<string> | null): Registered {
  const registered: Registered = { known: [], strange: [] }
  for (const entry of manifests.flatMap(({ entries }) => entries)) {
    const file = parseRegistered(table.nameAt(entry.data_file.file_path), entry, present)
    if (file === null) registered.strange.push(entry.data_file)
    else registered.known.push(file)
  }
  return registered
}

interface Plan {
  added: LakeFile[]
  removed: RegisteredFile[]
  strange: DataFile[]
}

/** The next snapshot: new files only, or what replaces others; null when there is nothing to do. Pure. */
function planChange({ known, strange }: Registered, files: readonly LakeFile[], damaged: ReadonlySet<string>): Plan | null {
  const current = new Map(files.map((file) => [file.name, file]))
  const newestOf = new Map(known.map((file) => [nameOf(file.range), file]))
  const isCurrent = (file: RegisteredFile) => {
    const same = current.get(nameOf(file.range))
    return !file.isGone && same !== undefined && file.isSame(same) && newestOf.get(nameOf(file.range)) === file
  }
  // A damaged file supersedes others by its name alone: the table keeps what it has of them.
  const removed = known.filter((file) => !isCurrent(file) && !files.some(({ name }) => damaged.has(name) && overlaps(file.range, name)))
  const kept = new Set(known.filter(isCurrent).map(({ range }) => nameOf(range)))
  const missing = files.filter(({ name }) => parseName(name) !== null && !damaged.has(name) && !kept.has(name))
  const appended = missing.filter(({ name }) => !removed.some(({ range }) => overlaps(range, name)))
  if (appended.length > 0) return { added: appended.slice(0, MAX_FILES), removed: [], strange: [] }
  return removed.length === 0 && strange.length === 0 ? null : { added: missing, removed, strange }
}

function overlaps({ folder, first, last }: FileRange, name: string): boolean {
  const other = parseName(name)
  return other !== null && other.folder === folder && other.first <= last && other.last >= first
}

interface PlanContext {
  store: LakeStore
  table: TableStore
  definition: LakeTableDefinition
  damaged: Map<string, string>
  now: Date
  signal: AbortSignal | undefined
}

async function commitPlan({ store, table, definition, damaged, now, signal }: PlanContext, base: TableBase, plan: Plan): Promise<boolean> {
  const today = now.toISOString().slice(0, 10)
  const added = await withDuckDB(makeSpillPath(), async (connection) => {
    const registered: DataFile[] = []
    for (const file of plan.added) {
      signal?.throwIfAborted()
      const data = await register({ store, table, definition, connection }, file, today)
      if (typeof data === 'string') damaged.set(file.name, data)
      else registered.push(data)
    }
    return registered
  })
  const removed = [...plan.removed.map(({ data }) => data), ...plan.strange]
  // Damaged files call for a new plan without them.
  if (added.length < plan.added.length && (removed.length > 0 || added.length === 0)) return false
  const rows = (files: readonly DataFile[]) => files.reduce((sum, { record_count }) => sum + record_count, 0)
  // A merge or repair deletes files that are in place, so the snapshots that have them cannot be read any more.
  const lostFrom = Math.min(
    ...plan.removed.filter(({ isInPlace, isGone }) => isInPlace || isGone).map(({ sequenceNumber }) => sequenceNumber),
  )
  const change: Change = {
    operation: removed.length === 0 ? 'append' : rows(removed) === rows(added) ? 'replace' : 'overwrite',
    added,
    removed: new Set(removed.map(({ file_path }) => file_path)),
    isKept: (snapshot) => snapshot['sequence-number'] < lostFrom,
  }
  return commitSnapshot(table, definition, base, change, now)
}

interface RegisterContext extends Pick<PlanContext, 'store' | 'table' | 'definition'> {
  connection: DuckDBConnection
}

/** Gives the table a file of the lake, by a hard link in a folder. Returns why it cannot, for a damaged one. */
async function register(
  { store, table, definition, connection }: RegisterContext,
  file: LakeFile,
  today: string,
): Promise<DataFile | string> {
  return store.withCopies([file], async ([path = '']) => {
    const damage = await findDamage(path, file.name)
    if (damage !== null) return `${damage}; ${REMEDY}`
    const name = nameInTable(definition, file, today)
    const data = await describeFile(connection, definition, path, { location: table.locate(name), sizeBytes: file.sizeBytes })
    if (name !== file.name) await store.put(name, path)
    return data
  })
}

const OWN_FOLDERS = EVENT_TABLES.map((table) => ({ dataset: table.dataset, folder: folderOf(table) }))
// <first>-<last>[.<level>]-<tag>-<random>.parquet: the last two keep names of different files, and of different commits, apart.
const OWN_NAME = /\/ingest_date=(\d{4}-\d{2}-\d{2})\/(\d{16})-(\d{16})(?:\.(\d{1,6}))?-([0-9a-f]{16})-[0-9a-f]{16}\.parquet$/

/** A file of a snapshot of a table of events, and the file of the lake that it is. */
interface RegisteredFile {
  data: DataFile
  /** Sequence number of the snapshot that added the file. */
  sequenceNumber: number
  range: FileRange
  /** Whether the table has the lake's own file, and no link or copy. */
  isInPlace: boolean
  /** Whether the table's own name of the file is missing. */
  isGone: boolean
  isSame(file: LakeFile): boolean
}

/** A merged file of a day that is over is in place: nothing supersedes it but a repair. Any other file gets a name of the table's own. */
function nameInTable(table: LakeTableDefinition, file: LakeFile, today: string): string {
  const range = parseName(file.name)
  if (range === null) throw new RangeError(`${file.name} is no file of events`)
  if (range.level > 0 && range.ingestDate < today) return file.name
  const { ingestDate, first, last, level } = range
  const levelPart = level === 0 ? '' : `.${level}`
  const unique = `${digestOf(file)}-${randomBytes(8).toString('hex')}`
  return `${folderOf(table)}ingest_date=${ingestDate}/${padSequence(first)}-${padSequence(last)}${levelPart}-${unique}.parquet`
}

/**
 * Returns null for a location that this store has not given. `name`: the file name from the lake's root. `present`:
 * null when presence is not checked.
 */
function parseRegistered(
  name: string | null,
  { data_file: data, sequence_number: sequenceNumber }: Pick<ManifestEntry, 'data_file' | 'sequence_number'>,
  present: ReadonlySet<string> | null,
): RegisteredFile | null {
  if (name === null) return null
  const of = OWN_FOLDERS.find(({ folder }) => name.startsWith(folder))
  const own = of === undefined ? null : OWN_NAME.exec(name)
  const [, ingestDate = '', first, last, level = '0', digest] = own ?? []
  const lakeName =
    of === undefined || own === null
      ? name
      : nameOf({ dataset: of.dataset, ingestDate, first: Number(first), last: Number(last), level: Number(level) })
  const range = parseName(lakeName)
  if (range === null) return null
  const isSame = (file: LakeFile) =>
    file.name === lakeName && (own === null ? file.sizeBytes === data.file_size_in_bytes : digestOf(file) === digest)
  const isGone = own !== null && present?.has(data.file_path) === false
  return { data, sequenceNumber, range, isInPlace: own === null, isGone, isSame }
}

function folderOf({ name }: Pick<LakeTableDefinition, 'name'>): string {
  return `iceberg/${name}/data/`
}

function digestOf({ name, tag }: LakeFile): string {
  return createHash('sha256').update(`${name}\n${tag}`).digest('hex').slice(0, 16)
}
