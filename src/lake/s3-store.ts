import { hash, randomUUID } from 'node:crypto'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import {
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
  S3ServiceException,
} from '@aws-sdk/client-s3'
import { reasonOf } from '../db/loggable-error.ts'
import { FileCache } from './file-cache.ts'
import { asideOf, isCompleteName, type LakeFile, LakeFileGone, type LakeStore, type ListedFile, UnsuitableBucket } from './lake-store.ts'
import { removeOldEntries, withTemporaryFolder } from './local-store.ts'

export interface S3LakeOptions {
  bucket: string
  /** The prefix of all keys, without a slash at either end. Empty for the bucket's root. */
  prefix: string
  /** The URL of a server other than AWS, which is addressed in path style. Null for AWS. */
  endpoint: string | null
  /** The region. Null for the region that AWS's SDK finds. */
  region: string | null
  cacheDirectory: string
  cacheBytes?: number
  /** Timeout of one attempt, plus a second for each megabyte of the body. */
  timeoutMs?: number
  /** Attempts per call, with growing pauses between them. */
  attempts?: number
}

const DEFAULT_CACHE_BYTES = 1024 ** 3
const TIMEOUT_MS = 15_000
const CONNECT_TIMEOUT_MS = 3_000
const ATTEMPTS = 4
const PAUSE_MS = 200
const DOWNLOADS = 8
const BYTES_PER_MS = 1_000
const TEMPORARY_FOLDER = '.tmp'
const NOT_IMPLEMENTED = 501

/** The server needs conditional writes (`If-None-Match: *`) and listings that show earlier writes. */
export class S3LakeStore implements LakeStore {
  readonly #client: S3Client
  readonly #bucket: string
  readonly #prefix: string
  readonly #cache: FileCache
  readonly #temporaryDirectory: string
  readonly #attempts: number
  readonly #timeoutMs: number
  readonly #closing = new AbortController()
  #suitable: Promise<void> | null = null

  constructor({ bucket, prefix, endpoint, region, cacheDirectory, ...options }: S3LakeOptions) {
    const { cacheBytes = DEFAULT_CACHE_BYTES, timeoutMs = TIMEOUT_MS, attempts = ATTEMPTS } = options
    this.#bucket = bucket
    this.#prefix = prefix === '' ? '' : `${prefix}/`
    this.#cache = new FileCache(join(cacheDirectory, 'files'), cacheBytes)
    this.#temporaryDirectory = join(cacheDirectory, TEMPORARY_FOLDER)
    this.#attempts = attempts
    this.#timeoutMs = timeoutMs
    this.#client = new S3Client({
      ...(endpoint === null ? {} : { endpoint, forcePathStyle: true }),
      ...(region === null ? {} : { region }),
      maxAttempts: attempts,
      retryMode: 'standard',
      // Servers other than AWS may not support the newer checksums. The metadata of an object have a checksum of ours.
      requestChecksumCalculation: 'WHEN_REQUIRED',
      responseChecksumValidation: 'WHEN_REQUIRED',
      requestHandler: {
        connectionTimeout: CONNECT_TIMEOUT_MS,
        requestTimeout: timeoutMs,
        throwOnRequestTimeout: true,
        socketTimeout: timeoutMs,
      },
    })
    this.#client.middlewareStack.add(
      (next) => async (args) => {
        try {
          return await next(args)
        } catch (error) {
          // A refused connection has no message at all, and no error names the bucket.
          if (error instanceof Error) error.message = `the bucket ${this.locate('')}: ${error.name}: ${reasonOf(error)}`
          throw error
        }
      },
      { step: 'initialize' },
    )
  }

  locate(name: string): string {
    return `s3://${this.#bucket}/${this.#keyOf(name)}`
  }

  async list(prefix: string): Promise<ListedFile[]> {
    const files: ListedFile[] = []
    let token: string | undefined
    do {
      const page = await this.#client.send(
        new ListObjectsV2Command({
          Bucket: this.#bucket,
          Prefix: this.#keyOf(prefix),
          ContinuationToken: token,
        }),
        this.#options(),
      )
      for (const { Key = '', Size = 0, LastModified } of page.Contents ?? []) {
        if (!isCompleteName(Key)) continue
        files.push({ name: Key.slice(this.#prefix.length), sizeBytes: Size, storedAt: LastModified?.getTime() ?? 0 })
      }
      token = page.NextContinuationToken
    } while (token !== undefined)
    return files
  }

  assertSuitable(): Promise<void> {
    this.#suitable ??= this.#assertConditions().catch((error) => {
      this.#suitable = null
      throw error
    })
    return this.#suitable
  }

  async #assertConditions(): Promise<void> {
    const name = `.probe/${randomUUID()}`
    let refuses = false
    try {
      await this.#putNew(name, Buffer.from('deleted at once'))
      refuses = await this.refusesOverwriting(name)
    } catch (error) {
      await this.delete(name).catch(() => {})
      if (statusOf(error) !== NOT_IMPLEMENTED) throw error
      throw new UnsuitableBucket(`${this.locate('')} does not implement If-None-Match`, { cause: error })
    }
    await this.delete(name)
    if (!refuses) throw new UnsuitableBucket(`${this.locate('')} ignores If-None-Match and overwrites files`)
  }

  async put(name: string, path: string): Promise<'stored' | 'taken'> {
    await this.assertSuitable()
    const bytes = await readFile(path)
    const outcome = await this.#putNew(name, bytes)
    // Readers download the file when the cache has no copy.
    if (outcome === 'stored') await this.#cache.keep({ name, sizeBytes: bytes.length }, path).catch(() => {})
    return outcome
  }

  async #putNew(name: string, bytes: Uint8Array): Promise<'stored' | 'taken'> {
    const digest = hash('sha256', bytes)
    for (let attempt = 1; ; attempt++) {
      try {
        await this.#client.send(
          new PutObjectCommand({ ...this.#object(name), Body: bytes, IfNoneMatch: '*', Metadata: { sha256: digest } }),
          this.#options(bytes.length),
        )
        return 'stored'
      } catch (error) {
        // The previous attempt may have stored the file although its response was lost.
        if (statusOf(error) === 412) return (await this.#findDigest(name)) === digest ? 'stored' : 'taken'
        if (statusOf(error) !== 409 || attempt >= this.#attempts) throw error
        await delay(PAUSE_MS * attempt, undefined, { signal: this.#closing.signal })
      }
    }
  }

  /** Sends the file's own bytes, so a server that does replace the file changes nothing. */
  async refusesOverwriting(name: string): Promise<boolean> {
    const { bytes, digest } = await this.#get(name)
    const metadata = digest === undefined ? {} : { Metadata: { sha256: digest } }
    try {
      await this.#client.send(
        new PutObjectCommand({ ...this.#object(name), Body: bytes, IfNoneMatch: '*', ...metadata }),
        this.#options(bytes.length),
      )
      return false
    } catch (error) {
      // 409: another request for the same name was in progress, so the condition counted, too.
      if ([409, 412].includes(statusOf(error) ?? 0)) return true
      throw error
    }
  }

  async replace(name: string, path: string): Promise<void> {
    const bytes = await readFile(path)
    const Metadata = { sha256: hash('sha256', bytes) }
    await this.#client.send(new PutObjectCommand({ ...this.#object(name), Body: bytes, Metadata }), this.#options(bytes.length))
  }

  async read(name: string): Promise<Uint8Array> {
    const { bytes, digest } = await this.#get(name)
    return isSame(bytes, digest) ? bytes : OTHER_BYTES
  }

  async delete(name: string): Promise<void> {
    await this.#client.send(new DeleteObjectCommand(this.#object(name)), this.#options())
  }

  async quarantineCopy(name: string): Promise<string> {
    const { bytes } = await this.#get(name)
    for (let copies = 0; ; copies++) {
      const aside = asideOf(name, copies)
      if ((await this.#putNew(aside, bytes)) === 'stored') return this.locate(aside)
    }
  }

  async quarantine(name: string): Promise<string> {
    const aside = await this.quarantineCopy(name)
    await this.delete(name)
    return aside
  }

  async withCopies<T>(files: readonly LakeFile[], work: (paths: string[]) => Promise<T>, { isFresh = false } = {}): Promise<T> {
    const copyAndWork = async (folder: string) => {
      // The copies keep their names, because these contain the ingest date.
      const paths = files.map(({ name }) => join(folder, name))
      for (const parent of new Set(paths.map(dirname))) await mkdir(parent, { recursive: true })
      const waiting = files.values()
      const failures: unknown[] = []
      const download = async () => {
        for (const file of waiting) {
          if (failures.length > 0) return
          const path = join(folder, file.name)
          if (isFresh) await this.#fetch(file, path)
          else await this.#cache.place(file, path, () => this.#fetch(file, path))
        }
      }
      const catching = () => download().catch((error: unknown) => failures.push(error))
      // No download may write into the folder after it is removed.
      await Promise.all(Array.from({ length: Math.min(DOWNLOADS, files.length) }, catching))
      if (failures.length > 0) throw failures[0]
      return work(paths)
    }
    return this.withWorkspace(copyAndWork).finally(() => this.#cache.trim())
  }

  async withWorkspace<T>(work: (folder: string) => Promise<T>): Promise<T> {
    await mkdir(this.#temporaryDirectory, { recursive: true })
    return withTemporaryFolder(this.#temporaryDirectory, work)
  }

  async removeOldWorkspaces(): Promise<void> {
    await removeOldEntries(this.#temporaryDirectory)
  }

  close(): void {
    this.#closing.abort()
    this.#client.destroy()
  }

  /** Returns whether the bytes are those of the file. */
  async #fetch(file: LakeFile, path: string): Promise<boolean> {
    const { bytes, digest } = await this.#get(file.name, file.sizeBytes)
    // Parquet itself does not detect every changed byte.
    const isStored = isSame(bytes, digest)
    await writeFile(path, isStored ? bytes : OTHER_BYTES, { flush: true })
    return isStored && bytes.length === file.sizeBytes
  }

  async #get(name: string, sizeBytes = 0): Promise<{ bytes: Uint8Array; digest: string | undefined }> {
    for (let attempt = 1; ; attempt++) {
      try {
        const { abortSignal, requestTimeout } = this.#options(sizeBytes)
        const deadline = AbortSignal.any([abortSignal, AbortSignal.timeout(requestTimeout * this.#attempts)])
        const { Body, Metadata } = await this.#client.send(new GetObjectCommand(this.#object(name)), {
          abortSignal: deadline,
          requestTimeout,
        })
        return { bytes: (await Body?.transformToByteArray()) ?? new Uint8Array(), digest: Metadata?.sha256 }
      } catch (error) {
        if (statusOf(error) === 404) throw new LakeFileGone(`${this.locate(name)} is gone`)
        // The SDK retries failures before the body. An aborted body is retried here.
        if (error instanceof S3ServiceException || attempt >= this.#attempts || this.#closing.signal.aborted) throw error
        await delay(PAUSE_MS * attempt, undefined, { signal: this.#closing.signal })
      }
    }
  }

  async #findDigest(name: string): Promise<string | undefined> {
    try {
      const { Metadata } = await this.#client.send(new HeadObjectCommand(this.#object(name)), this.#options())
      return Metadata?.sha256
    } catch (error) {
      if (statusOf(error) === 404) return undefined
      throw error
    }
  }

  #object(name: string) {
    return { Bucket: this.#bucket, Key: this.#keyOf(name) }
  }

  #keyOf(name: string): string {
    return `${this.#prefix}${name}`
  }

  #options(bodyBytes = 0) {
    return { abortSignal: this.#closing.signal, requestTimeout: this.#timeoutMs + Math.ceil(bodyBytes / BYTES_PER_MS) }
  }
}

/** These bytes replace changed ones, so no reader accepts those as a lake file. */
const OTHER_BYTES = Buffer.from('not the bytes that were stored')

function isSame(bytes: Uint8Array, digest: string | undefined): boolean {
  return digest === undefined || digest === hash('sha256', bytes)
}

function statusOf(error: unknown): number | undefined {
  return error instanceof S3ServiceException ? error.$metadata.httpStatusCode : undefined
}
