import { hash, randomUUID } from 'node:crypto'
import { open } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { OperatorError } from '../../errors.ts'
import { findDamagedBytes } from '../find-damage.ts'
import { LakeFileGone, type LakeStore, repeatWhenGone } from '../lake-store.ts'
import { AvroDamaged } from './avro-file.ts'
import { DELETED, decodeManifest, decodeManifestList, type ManifestEntry, type ManifestFile } from './manifest.ts'
import {
  currentSnapshot,
  formatMetadata,
  MAX_PREVIOUS_METADATA,
  parseMetadata,
  type Snapshot,
  type TableMetadata,
} from './table-metadata.ts'

const MAX_ATTEMPTS = 5
/** One commit per second takes 68 years to reach it, so a higher version is of another program. */
const MAX_VERSION = 2 ** 31 - 1
/** The digest in the name of a manifest or manifest list. Earlier releases have written none. */
const DIGEST_IN_NAME = /-([0-9a-f]{32})\.avro$/

export interface TableVersion {
  version: number
  name: string
  metadata: TableMetadata
}

export interface TableState {
  newest: TableVersion | null
  nextVersion: number
  /**
   * Newer metadata files that are ignored, each with the reason: half a copy, or a version that no commit has written.
   */
  damaged: string[]
  /** Whether a commit has written a newer version than `newest`, which cannot be read. */
  isBehind: boolean
}

export interface LiveManifest {
  manifest: ManifestFile
  entries: ManifestEntry[]
}

export interface FileReference {
  location: string
  sizeBytes: number
}

export interface References {
  manifests: string[]
  files: FileReference[]
}

/**
 * A commit writes the next version, which only one process can do. See
 * docs/decisions/lake-snapshots.md#the-newest-snapshot-is-the-lake.
 */
export class TableStore {
  readonly #store: LakeStore
  readonly folder: string
  readonly #versionName: RegExp
  /** Manifests of the last read snapshot, by location. Their files never change. */
  #known = new Map<string, ManifestEntry[]>()

  constructor(store: LakeStore, table: string) {
    this.#store = store
    this.folder = `iceberg/${table}/`
    this.#versionName = new RegExp(`^${this.folder}metadata/v(\\d+)\\.metadata\\.json$`)
  }

  /** A URI for readers of the table. Special characters stay unescaped, as Iceberg readers expect. */
  locate(name: string): string {
    const at = this.#store.locate(name)
    return at.startsWith('s3://') ? at : `file://${resolve(at)}`
  }

  /**
   * The name of the file at a location. Null if the location is outside of this lake. `home` is the table's place when
   * the location was written.
   */
  nameAt(location: string, home = this.home): string | null {
    const root = home.slice(0, home.length - this.folder.length + 1)
    return location.startsWith(root) ? location.slice(root.length) : null
  }

  get home(): string {
    return this.locate(this.folder.slice(0, -1))
  }

  async read(): Promise<TableState> {
    return repeatWhenGone(MAX_ATTEMPTS, async () => {
      const { versions, strange } = await this.#listVersions()
      const nextVersion = (versions[0]?.version ?? 0) + 1
      const damaged = strange.map((name) => `${this.#store.locate(name)}: no commit has put a version as high as this: delete it`)
      for (const { version, name } of versions) {
        const metadata = parseMetadata(Buffer.from(await this.#store.read(name)).toString())
        if (metadata !== null) return { newest: { version, name, metadata }, nextVersion, damaged, isBehind: version + 1 < nextVersion }
        damaged.push(`${this.#store.locate(name)}: it is no metadata of a table, or was changed`)
      }
      return { newest: null, nextVersion, damaged, isBehind: nextVersion > 1 }
    })
  }

  /** Reads the manifests of the current snapshot. Returns null if one of them is damaged or missing. */
  async readManifests(metadata: TableMetadata): Promise<LiveManifest[] | null> {
    const snapshot = currentSnapshot(metadata)
    return nullIfDamaged(async () => {
      const manifests = await this.#readList(snapshot, metadata.location)
      const live: LiveManifest[] = []
      for (const manifest of manifests) {
        const entries = this.#known.get(manifest.manifest_path) ?? (await this.#readEntries(manifest, metadata.location))
        live.push({ manifest, entries })
      }
      this.#known = new Map(live.map(({ manifest, entries }) => [manifest.manifest_path, entries]))
      assertTotal(
        snapshot,
        live.reduce((sum, { entries }) => sum + entries.length, 0),
      )
      return live
    })
  }

  /**
   * Reads the locations of a snapshot's manifests and files. Returns null if they cannot be read. `known` caches
   * manifests, because snapshots share them.
   */
  async readReferences(snapshot: Snapshot, known: Map<string, FileReference[]>): Promise<References | null> {
    return nullIfDamaged(async () => {
      const files: FileReference[] = []
      const manifests = await this.#readList(snapshot)
      for (const manifest of manifests) {
        const own = known.get(manifest.manifest_path) ?? (await this.#readEntries(manifest)).map(toReference)
        known.set(manifest.manifest_path, own)
        files.push(...own)
      }
      assertTotal(snapshot, files.length)
      return { manifests: manifests.map(({ manifest_path }) => manifest_path), files }
    })
  }

  /** The name contains the digest, so damage is detectable. Returns the location. */
  async putAvro(kind: 'manifest' | 'snap', bytes: Uint8Array): Promise<string> {
    const name = `${this.folder}metadata/${kind}-${randomUUID()}-${digestOf(bytes)}.avro`
    await this.putFile(name, bytes)
    return this.locate(name)
  }

  putFile(name: string, bytes: Uint8Array): Promise<'stored' | 'taken'> {
    return this.#withFile(bytes, (path) => this.#store.put(name, path))
  }

  /** Commits a version. Returns false if another process has written this version, even if it was deleted since. */
  async commit(version: number, metadata: TableMetadata): Promise<boolean> {
    const name = this.#nameOf(version)
    if (version > MAX_VERSION)
      throw new OperatorError(`${this.#store.locate(this.#nameOf(version - 1))} leaves no higher version for a table: delete it`)
    if ((await this.putFile(name, Buffer.from(formatMetadata(metadata)))) === 'taken') return false
    const newest = await this.#afterCommit(version)
    // An old version's name is free again after its deletion, and later versions do not include this commit.
    return version >= newest - MAX_PREVIOUS_METADATA
  }

  /**
   * Returns which of the files are undamaged. It reads all files that are not in `known`, and adds their results to it.
   * This is safe, because a name never gets another file.
   */
  async findSound(locations: Iterable<string>, known: Map<string, boolean>): Promise<Set<string>> {
    const wanted = new Set(locations)
    const valid = new Set<string>()
    for (const file of await this.#store.list(`${this.folder}data/`)) {
      const location = this.locate(file.name)
      if (!wanted.has(location)) continue
      const read = () => this.#store.withCopies([file], async ([path = '']) => (await findDamagedBytes(path)) === null)
      const isValid = known.get(location) ?? (await nullIfDamaged(read)) ?? false
      known.set(location, isValid)
      if (isValid) valid.add(location)
    }
    return valid
  }

  async renewHint(): Promise<void> {
    const { newest, isBehind } = await this.read()
    if (newest !== null && !isBehind) await this.#afterCommit(newest.version)
  }

  /** The hint is for readers without a catalogue. It may be late and name earlier metadata, which still exist. */
  async #afterCommit(version: number): Promise<number> {
    const { versions } = await this.#listVersions()
    const newest = versions[0]?.version ?? 0
    await this.#withFile(Buffer.from(String(newest)), (path) => this.#store.replace(`${this.folder}metadata/version-hint.text`, path))
    // A higher version may be damaged.
    for (const earlier of versions) if (earlier.version < version - MAX_PREVIOUS_METADATA) await this.#store.delete(earlier.name)
    return newest
  }

  /** Lists the versions, the newest first. `strange` are files with a version that no commit has written. */
  async #listVersions(): Promise<{ versions: { version: number; name: string }[]; strange: string[] }> {
    const files = await this.#store.list(`${this.folder}metadata/v`)
    const all = files.flatMap(({ name }) => {
      const version = this.#versionName.exec(name)?.[1]
      return version === undefined ? [] : [{ version: Number(version), name }]
    })
    return {
      versions: all.filter(({ version }) => version <= MAX_VERSION).sort((a, b) => b.version - a.version),
      strange: all.filter(({ version }) => version > MAX_VERSION).map(({ name }) => name),
    }
  }

  #nameOf(version: number): string {
    return `${this.folder}metadata/v${version}.metadata.json`
  }

  async #readList(snapshot: Snapshot, home?: string): Promise<ManifestFile[]> {
    return decodeManifestList(await this.#readAt(snapshot['manifest-list'], home))
  }

  async #readEntries(manifest: ManifestFile, home?: string): Promise<ManifestEntry[]> {
    const entries = await decodeManifest(await this.#readAt(manifest.manifest_path, home))
    const counts = manifest.added_files_count + manifest.existing_files_count + manifest.deleted_files_count
    if (entries.length !== counts) throw new AvroDamaged(`${manifest.manifest_path} has ${entries.length} entries of ${counts}`)
    return entries.filter(({ status }) => status !== DELETED)
  }

  async #readAt(location: string, home?: string): Promise<Uint8Array> {
    const name = this.nameAt(location, home)
    if (name === null) throw new LakeFileGone(`${location} is not in this lake`)
    const bytes = await this.#store.read(name)
    const digest = DIGEST_IN_NAME.exec(name)?.[1]
    if (digest !== undefined && digest !== digestOf(bytes)) throw new AvroDamaged(`${location} is not as it was written`)
    return bytes
  }

  async #withFile<T>(bytes: Uint8Array, work: (path: string) => Promise<T>): Promise<T> {
    return this.#store.withWorkspace(async (folder) => {
      const path = join(folder, 'file')
      await using file = await open(path, 'w')
      await file.writeFile(bytes)
      await file.sync()
      return await work(path)
    })
  }
}

function digestOf(bytes: Uint8Array): string {
  return hash('sha256', bytes).slice(0, 32)
}

function toReference({ data_file }: ManifestEntry): FileReference {
  return { location: data_file.file_path, sizeBytes: data_file.file_size_in_bytes }
}

/** A list that is cut between two of its blocks can still be decoded. */
function assertTotal({ summary, 'manifest-list': list }: Snapshot, files: number): void {
  if (String(files) !== summary['total-data-files']) throw new AvroDamaged(`${list} has ${files} files of ${summary['total-data-files']}`)
}

async function nullIfDamaged<T>(work: () => Promise<T>): Promise<T | null> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof AvroDamaged || error instanceof LakeFileGone) return null
    throw error
  }
}
