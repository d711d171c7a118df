import { createHash, randomBytes } from 'node:crypto'
import { type FileRange, nameOf, padSequence, parseName } from '../lake-names.ts'
import type { LakeFile } from '../lake-store.ts'
import { EVENT_TABLES, type LakeTableDefinition } from './lake-table.ts'
import type { DataFile, ManifestEntry } from './manifest.ts'

const OWN_FOLDERS = EVENT_TABLES.map((table) => ({ dataset: table.dataset, folder: folderOf(table) }))
// <first>-<last>[.<level>]-<tag>-<random>.parquet: the last two keep names of different files, and of different commits, apart.
const OWN_NAME = /\/ingest_date=(\d{4}-\d{2}-\d{2})\/(\d{16})-(\d{16})(?:\.(\d{1,6}))?-([0-9a-f]{16})-[0-9a-f]{16}\.parquet$/

/** A file of a snapshot of a table of events, and the file of the lake that it is. */
export interface RegisteredFile {
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
export function nameInTable(table: LakeTableDefinition, file: LakeFile, today: string): string {
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
export function parseRegistered(
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
