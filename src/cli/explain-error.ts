import { explainConnection } from '../db/connection-refusal.ts'
import { isDiskFull } from '../db/embedded/full-disk.ts'
import { INSUFFICIENT_PRIVILEGE, sqlState } from '../db/sql-state.ts'
import { AppError, OperatorError } from '../errors.ts'

// The codes of https://nodejs.org/api/tls.html#x509-certificate-error-codes
const UNTRUSTED = [
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
]

const FILE_PROBLEMS: Record<string, string> = {
  EACCES: 'this user may not use it',
  EEXIST: 'something else has that name',
  EISDIR: 'it is a folder',
  EDQUOT: 'the quota is used up',
  ENOENT: 'there is no such file or folder',
  ENOSPC: 'the disk is full',
  ENOTDIR: 'a part of its path is not a folder',
  EPERM: 'this user may not use it',
  EROFS: 'the file system is read-only',
}

export function explainError(error: unknown): { message: string; exitStatus: number } | null {
  if (error instanceof OperatorError) return { message: error.message, exitStatus: error.exitStatus }
  const message = error instanceof AppError ? error.message : (explainFile(error) ?? explainDatabase(error))
  return message === null ? null : { message: message.replaceAll(/\s*\n\s*/g, ' '), exitStatus: 1 }
}

/** Whether an unknown authority signed the server's certificate. */
export function isUntrusted(error: unknown): boolean {
  const { code = '', cause } = error as { code?: string; cause?: unknown }
  return UNTRUSTED.includes(code) || (cause instanceof Error && isUntrusted(cause))
}

function explainFile(error: unknown): string | null {
  const { code = '', path } = error as NodeJS.ErrnoException
  // The error of a write to a full disk has no path.
  if (isDiskFull(error) && typeof path !== 'string') return `a disk is full (${code}): make room on it`
  const problem = FILE_PROBLEMS[code]
  return problem === undefined || typeof path !== 'string' ? null : `${path} cannot be used: ${problem} (${code})`
}

function explainDatabase(error: unknown): string | null {
  const { message, severity } = error as { message?: string; severity?: string }
  if (isUntrusted(error)) {
    return `a server's certificate is signed by an authority that is not known (${message}); for the database add sslrootcert=FILE to its address, for the object store set NODE_EXTRA_CA_CERTS=FILE`
  }
  if (sqlState(error) === INSUFFICIENT_PRIVILEGE && severity !== 'FATAL') {
    return `the role in DATABASE_URL lacks a right: ${message}; run storefront migrate, which grants it`
  }
  return explainConnection(error, 'DATABASE_URL')
}
