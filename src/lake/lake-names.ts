/** Folders of events at the lake's root. */
export type DatasetName = 'orders' | 'catalogue'
export const DATASET_NAMES: readonly DatasetName[] = ['orders', 'catalogue']

// Names of the lake's files, from the lake's root: <dataset>/ingest_date=YYYY-MM-DD/<first sequence>-<last
// sequence>[.<level>].parquet
const DATA_FILE = /^((orders|catalogue)\/ingest_date=(\d{4}-\d{2}-\d{2}))\/(\d{16})-(\d{16})(?:\.(\d{1,6}))?\.parquet$/

/** The parts of a file's name. */
export interface FileRange {
  dataset: DatasetName
  /** `<dataset>/ingest_date=YYYY-MM-DD` */
  folder: string
  /** UTC, `YYYY-MM-DD`. */
  ingestDate: string
  first: number
  last: number
  /** 0 for files of the sink; a file that supersedes others has a higher level than they. */
  level: number
}

/** Returns null for names of other files. */
export function parseName(name: string): FileRange | null {
  const [, folder = '', dataset, ingestDate = '', first, last, level = '0'] = DATA_FILE.exec(name) ?? []
  if (first === undefined) return null
  return { dataset: dataset as DatasetName, folder, ingestDate, first: Number(first), last: Number(last), level: Number(level) }
}

export function nameOf({
  dataset = 'orders',
  ingestDate,
  first,
  last,
  level = 0,
}: Pick<FileRange, 'ingestDate' | 'first' | 'last'> & Partial<Pick<FileRange, 'dataset' | 'level'>>): string {
  return `${dataset}/ingest_date=${ingestDate}/${padSequence(first)}-${padSequence(last)}${level === 0 ? '' : `.${level}`}.parquet`
}

export function padSequence(sequence: number): string {
  return String(sequence).padStart(16, '0')
}

/**
 * Splits files into current ones, in order of folder and first sequence, and superseded ones. A file is superseded by
 * another one of its folder whose range covers its own and whose level is the same or higher: that one has its rows.
 * See decision 0052.
 */
export function splitSuperseded<T extends { name: string }>(files: readonly T[]): { current: T[]; superseded: T[] } {
  const ranges = files.flatMap((file) => {
    const range = parseName(file.name)
    return range === null ? [] : [{ file, ...range }]
  })
  ranges.sort((a, b) => compare(a.folder, b.folder) || a.first - b.first || b.last - a.last || b.level - a.level)
  const [current, superseded]: [T[], T[]] = [[], []]
  // Files of the folder whose range reaches the current file: one or two, except during a merge.
  let open: typeof ranges = []
  for (const range of ranges) {
    open = open.filter(({ folder, last }) => folder === range.folder && last >= range.first)
    const isSuperseded = open.some(({ last, level }) => last >= range.last && level >= range.level)
    if (isSuperseded) superseded.push(range.file)
    else current.push(range.file)
    open.push(range)
  }
  return { current, superseded }
}

/** Current files that supersede others, each with those. */
export function groupSuperseded<T extends { name: string }>(files: readonly T[]): Map<T, T[]> {
  const { current, superseded } = splitSuperseded(files)
  const groups = new Map<T, T[]>()
  for (const file of current) {
    const range = parseName(file.name)
    const within = superseded.filter(({ name }) => covers(range, parseName(name)))
    if (within.length > 0) groups.set(file, within)
  }
  return groups
}

function covers(wide: FileRange | null, range: FileRange | null): boolean {
  if (wide === null || range === null || wide.folder !== range.folder) return false
  return wide.first <= range.first && wide.last >= range.last && wide.level >= range.level
}

function compare(a: string, b: string): number {
  return a === b ? 0 : a < b ? -1 : 1
}
