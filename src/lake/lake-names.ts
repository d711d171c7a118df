// Names of the lake's files, from the lake's root: orders/ingest_date=YYYY-MM-DD/<first sequence>-<last sequence>[.<level>].parquet
const DATA_FILE = /^(orders\/ingest_date=(\d{4}-\d{2}-\d{2}))\/(\d{16})-(\d{16})(?:\.(\d{1,6}))?\.parquet$/

/** What a file's name says. */
export interface FileRange {
  /** `orders/ingest_date=YYYY-MM-DD` */
  folder: string
  /** UTC, `YYYY-MM-DD`. */
  ingestDate: string
  first: number
  last: number
  /** 0 as the sink writes it; one more than that of what it stands for, when it was written later. */
  level: number
}

/** Null for what is no complete file of rows. */
export function parseName(name: string): FileRange | null {
  const [, folder = '', ingestDate = '', first, last, level = '0'] = DATA_FILE.exec(name) ?? []
  if (first === undefined) return null
  return { folder, ingestDate, first: Number(first), last: Number(last), level: Number(level) }
}

export function nameOf({
  ingestDate,
  first,
  last,
  level = 0,
}: Pick<FileRange, 'ingestDate' | 'first' | 'last'> & { level?: number }): string {
  return `orders/ingest_date=${ingestDate}/${padSequence(first)}-${padSequence(last)}${level === 0 ? '' : `.${level}`}.parquet`
}

export function padSequence(sequence: number): string {
  return String(sequence).padStart(16, '0')
}

/**
 * The files that count, in order of folder and first sequence. One whose range lies within that of another file in the same folder, of
 * the same or a higher level, is superseded: the other one holds its rows. See decision 0052.
 */
export function splitSuperseded<T extends { name: string }>(files: readonly T[]): { current: T[]; superseded: T[] } {
  const ranges = files.flatMap((file) => {
    const range = parseName(file.name)
    return range === null ? [] : [{ file, ...range }]
  })
  ranges.sort((a, b) => compare(a.folder, b.folder) || a.first - b.first || b.last - a.last || b.level - a.level)
  const [current, superseded]: [T[], T[]] = [[], []]
  // Those of the folder that reach as far as the file at hand: one or two, but for a lake that is being merged.
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

/** The files that count and supersede others, each with those that lie within its range. */
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
