import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { type FileHandle, mkdir, open, readdir, readFile, realpath, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, isAbsolute, join, relative, sep } from 'node:path'
import { OperatorError } from '../../errors.ts'
import { type AppliedMigration, assertKnownSchema, listMigrations } from '../migrate.ts'
import { connectToAny, type Queryable } from '../pool.ts'
import { type DataFolder, lockDataFolder, restoredFolder, syncFolder } from './data-folder.ts'
import { markRestored } from './unfinished-restore.ts'

export interface BackupSummary {
  files: number
  sizeBytes: number
}

interface Manifest {
  format: 1
  files: { path: string; sizeBytes: number; sha256: string }[]
  folders: string[]
  migrations: AppliedMigration[]
  finishedAt: string
}

const MANIFEST = 'backup.json'
const CHUNK_BYTES = 1024 * 1024
const SYNCS_AT_ONCE = 16
const SECRETS = ['postgres-password', 'secret', 'secret.next']
// Files that a server creates at its start, and slots, which would retain the copy's WAL:
// https://www.postgresql.org/docs/current/continuous-archiving.html#BACKUP-LOWLEVEL-BASE-BACKUP-DATA
const COPIED_EMPTY = /^(pg_dynshmem|pg_notify|pg_replslot|pg_serial|pg_snapshots|pg_stat_tmp|pg_subtrans|pg_wal)$/
const EXCLUDED =
  /(^|\/)(postmaster\.(pid|opts)|pg_internal\.init.*|pgsql_tmp.*|\.s\..*|.*\.tmp|backup_label(\.old)?|tablespace_map(\.old)?)$/
const CONTROL_FILE = 'global/pg_control'

/**
 * Backs up a running cluster. `target` appears complete or not at all. `url` is the superuser's address. Throws
 * OperatorError.
 */
export async function backUpCluster(folder: DataFolder, url: string, target: string): Promise<BackupSummary> {
  if (existsSync(target)) throw targetExists(target)
  if (await isBelow(target, folder.cluster)) throw new OperatorError(`${target} is in the database's own folder: give another one`)
  const draft = `${target}.partial`
  await claimDraft(draft)
  try {
    const summary = await copyCluster(folder, url, draft)
    await putInPlace(draft, target)
    return summary
  } catch (error) {
    await rm(draft, { recursive: true, force: true })
    throw error
  }
}

async function copyCluster(folder: DataFolder, url: string, draft: string): Promise<BackupSummary> {
  const copier = new Copier(draft)
  await using server = await connectToAny(url, 'storefront-backup')
  if ((await readdir(join(folder.cluster, 'pg_tblspc'))).length > 0)
    throw new OperatorError('a database cluster with tablespaces cannot be backed up by this command')
  // The slot retains the WAL from here on. PostgreSQL drops this temporary slot with the session.
  await server.query(`select pg_create_physical_replication_slot('storefront_backup_' || pg_backend_pid(), true, true)`)
  await server.query(`select pg_backup_start('storefront', true)`)
  for (const path of await listCluster(folder.cluster, copier)) await copier.copyIfPresent(join(folder.cluster, path), `postgres/${path}`)
  await copier.copy(join(folder.cluster, CONTROL_FILE), `postgres/${CONTROL_FILE}`)
  const { label, lastSegment } = await stopBackup(server)
  await copier.write('postgres/backup_label', label)
  await copyWal(folder, label, lastSegment, copier)
  for (const name of SECRETS) await copier.copyIfPresent(join(folder.path, name), name)
  const summary = await copier.finish()
  await copier.writeManifest(await listMigrations(server))
  return summary
}

async function isBelow(path: string, folder: string): Promise<boolean> {
  let parent = path
  while (!existsSync(parent)) parent = dirname(parent)
  const toParent = relative(await realpath(folder), await realpath(parent))
  return !isAbsolute(toParent) && toParent.split(sep)[0] !== '..'
}

async function listCluster(cluster: string, copier: Copier, folder = ''): Promise<string[]> {
  await copier.makeFolder(join('postgres', folder))
  const files: string[] = []
  for (const entry of await readdir(join(cluster, folder), { withFileTypes: true })) {
    const path = folder === '' ? entry.name : `${folder}/${entry.name}`
    if (EXCLUDED.test(path) || path === CONTROL_FILE) continue
    if (entry.isFile()) files.push(path)
    else if (entry.isDirectory() && COPIED_EMPTY.test(path)) await copier.makeFolder(join('postgres', path))
    else if (entry.isDirectory()) files.push(...(await listCluster(cluster, copier, path)))
  }
  return files
}

async function stopBackup(server: Queryable): Promise<{ label: string; lastSegment: string }> {
  // Waiting for an archive is unnecessary, because the WAL is copied here.
  const { rows } = await server.query<{ label: string; last_segment: string }>(
    'select labelfile as label, pg_walfile_name(lsn) as last_segment from pg_backup_stop(false)',
  )
  if (rows[0] === undefined) throw new Error('pg_backup_stop returned no row')
  return { label: rows[0].label, lastSegment: rows[0].last_segment }
}

async function copyWal({ cluster }: DataFolder, label: string, last: string, copier: Copier): Promise<void> {
  const [, first = ''] = /^START WAL LOCATION: \S+ \(file ([0-9A-F]{24})\)/.exec(label) ?? []
  const segments = (await readdir(join(cluster, 'pg_wal'))).filter((name) => /^[0-9A-F]{24}$/.test(name) && name >= first && name <= last)
  if (first === '' || !segments.includes(first) || !segments.includes(last))
    throw new OperatorError(`the server has removed WAL segments between ${first} and ${last}`)
  for (const name of segments.sort()) await copier.copy(join(cluster, 'pg_wal', name), `postgres/pg_wal/${name}`)
}

/** Verifies every file before the first change. The restore is unfinished until an incarnation has begun. */
export async function restoreCluster(folder: DataFolder, source: string): Promise<{ setAside: string | null }> {
  const manifest = await readManifest(source)
  await assertKnownSchema(manifest.migrations, source)
  const unlock = lockDataFolder(folder)
  try {
    const draft = restoredFolder(folder)
    await rm(draft, { recursive: true, force: true })
    const copier = new Copier(draft)
    for (const path of manifest.folders) await copier.makeFolder(path)
    for (const { path, sha256 } of manifest.files) {
      if ((await copier.copy(join(source, path), path)) !== sha256) throw new OperatorError(`${join(source, path)} is damaged`)
    }
    await copier.finish()
    markRestored(join(draft, 'postgres'))
    const suffix = `.replaced-${Date.now()}`
    const setAside = existsSync(folder.cluster) ? `${folder.cluster}${suffix}` : null
    if (setAside !== null) await rename(folder.cluster, setAside)
    for (const name of SECRETS) {
      const file = join(folder.path, name)
      if (existsSync(file)) await rename(file, `${file}${suffix}`)
      if (existsSync(join(draft, name))) await rename(join(draft, name), file)
    }
    await rename(join(draft, 'postgres'), folder.cluster)
    syncFolder(folder.path)
    await rm(draft, { recursive: true })
    return { setAside }
  } finally {
    unlock()
  }
}

async function readManifest(source: string): Promise<Manifest> {
  try {
    const manifest = JSON.parse(await readFile(join(source, MANIFEST), 'utf8')) as Manifest
    if (manifest.format !== 1 || !Array.isArray(manifest.files) || !Array.isArray(manifest.folders)) throw new Error('unknown format')
    return { ...manifest, migrations: manifest.migrations ?? [] }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code !== undefined && code !== 'ENOENT' && code !== 'ENOTDIR') throw error
    throw new OperatorError(`${source} is not a complete backup made by storefront backup`, { cause: error })
  }
}

async function syncFile(path: string): Promise<void> {
  await using file = await open(path, 'r+')
  await file.sync()
}

class Copier {
  readonly #target: string
  readonly #files: Manifest['files'] = []
  readonly #folders: string[] = []
  /** One for all files: most of a cluster's two thousand files are small. */
  readonly #buffer = Buffer.allocUnsafe(CHUNK_BYTES)

  constructor(target: string) {
    this.#target = target
  }

  async makeFolder(path: string): Promise<void> {
    await mkdir(join(this.#target, path), { recursive: true, mode: 0o700 })
    this.#folders.push(path)
  }

  /** A file that PostgreSQL has removed meanwhile is not needed. */
  async copyIfPresent(from: string, path: string): Promise<void> {
    try {
      await this.copy(from, path)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    }
  }

  async copy(from: string, path: string): Promise<string> {
    await using source = await open(from, 'r')
    return await this.#store(path, this.#read(source))
  }

  async write(path: string, text: string): Promise<void> {
    await this.#store(path, [Buffer.from(text)])
  }

  async finish(): Promise<BackupSummary> {
    const left = this.#files.map(({ path }) => path)
    // Concurrent syncs let the disk write many files at once.
    const syncEach = async () => {
      for (let path = left.pop(); path !== undefined; path = left.pop()) await syncFile(join(this.#target, path))
    }
    await Promise.all(Array.from({ length: SYNCS_AT_ONCE }, syncEach))
    for (const path of [...this.#folders, '.']) syncFolder(join(this.#target, path))
    return { files: this.#files.length, sizeBytes: this.#files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0) }
  }

  /** A folder without this list is no backup. */
  async writeManifest(migrations: AppliedMigration[]): Promise<void> {
    const manifest: Manifest = { format: 1, files: this.#files, folders: this.#folders, migrations, finishedAt: new Date().toISOString() }
    await writeFile(join(this.#target, MANIFEST), `${JSON.stringify(manifest)}\n`, { mode: 0o600, flush: true })
    syncFolder(this.#target)
  }

  async *#read(source: FileHandle): AsyncIterable<Buffer> {
    while (true) {
      const { bytesRead } = await source.read(this.#buffer)
      if (bytesRead === 0) return
      yield this.#buffer.subarray(0, bytesRead)
    }
  }

  async #store(path: string, chunks: Iterable<Buffer> | AsyncIterable<Buffer>): Promise<string> {
    await using target = await open(join(this.#target, path), 'w', 0o600)
    const digest = createHash('sha256')
    for await (const chunk of chunks) {
      digest.update(chunk)
      await target.writeFile(chunk)
    }
    const sha256 = digest.digest('hex')
    this.#files.push({ path, sizeBytes: (await target.stat()).size, sha256 })
    return sha256
  }
}

async function claimDraft(draft: string): Promise<void> {
  await mkdir(dirname(draft), { recursive: true, mode: 0o700 })
  try {
    await mkdir(draft, { mode: 0o700 })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    throw new OperatorError(`${draft} exists: another backup writes to it, or one was killed; delete it if no backup runs`, {
      cause: error,
    })
  }
}

async function putInPlace(draft: string, target: string): Promise<void> {
  try {
    await rename(draft, target)
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    throw ['ENOTEMPTY', 'EEXIST', 'ENOTDIR'].includes(code) ? targetExists(target, error) : error
  }
  syncFolder(dirname(target))
}

function targetExists(target: string, cause?: unknown): OperatorError {
  return new OperatorError(`${target} is there already: give the backup a folder of its own`, { cause })
}
