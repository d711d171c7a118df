import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { LakeStore } from '../src/lake/lake-store.ts'
import { LocalLakeStore } from '../src/lake/local-store.ts'
import { S3LakeStore } from '../src/lake/s3-store.ts'
import { type Cleanup, onCleanup } from './cleanup.ts'
import { makeLakeDirectory } from './lake-harness.ts'
import { type S3Server, startS3Server } from './s3-server.ts'

/** An empty lake, and a second store object on it, as another process would have. */
export interface TestLake {
  store: LakeStore
  connect(): Promise<LakeStore>
  /** Reads a file past the store. */
  readObject(name: string): Promise<string>
  /** The path of a file past the store. */
  pathOf(name: string): string
  /** The folder of `store`'s workspaces. */
  workspaces: string
  isRemote: boolean
  /** The S3 server; null for a folder. */
  server: S3Server | null
}

export type MakeLake = (t: Cleanup) => Promise<TestLake>

/** Makes a lake in a folder whose name has the special characters of SQL and of file patterns. */
export const makeLocalLake: MakeLake = async (t) => {
  const folder = makeLakeDirectory(t)
  return {
    store: new LocalLakeStore(folder),
    connect: async () => new LocalLakeStore(folder),
    readObject: (name) => readFile(join(folder, name), 'utf8'),
    pathOf: (name) => join(folder, name),
    workspaces: join(folder, '.tmp'),
    isRemote: false,
    server: null,
  }
}

/** Makes a lake on a new S3 server that lists two objects a page. */
export const makeS3Lake: MakeLake = async (t) => {
  const server = await startS3Server(t, { pageSize: 2 })
  const connect = async (cacheDirectory: string) => {
    const store = openTestBucket(server, cacheDirectory)
    onCleanup(t, () => store.close())
    return store
  }
  const cache = makeLakeDirectory(t)
  return {
    store: await connect(cache),
    connect: async () => connect(makeLakeDirectory(t)),
    readObject: (name) => readFile(join(server.folder, 'lake/of tests', name), 'utf8'),
    pathOf: (name) => join(server.folder, 'lake/of tests', name),
    workspaces: join(cache, '.tmp'),
    isRemote: true,
    server,
  }
}

/** The lake of a test's bucket. Its timeouts outlast a machine that stands still for a while. */
export function openTestBucket(server: S3Server, cacheDirectory: string, options: { timeoutMs?: number; cacheBytes?: number } = {}) {
  // An operator sets these variables, too: AWS's SDK alone reads them.
  Object.assign(process.env, server.env)
  const { bucket, url: endpoint, env } = server
  const region = env.AWS_REGION ?? null
  return new S3LakeStore({ bucket, prefix: 'lake/of tests', endpoint, region, cacheDirectory, timeoutMs: 30_000, ...options })
}
