import { mkdir, rename } from 'node:fs/promises'
import { dirname } from 'node:path'
import { OperatorError } from '../../errors.ts'
import { syncFolder } from './data-folder.ts'

/** Creates the folder, which then is this backup's alone. Throws OperatorError when it exists. */
export async function claimDraft(draft: string): Promise<void> {
  await mkdir(dirname(draft), { recursive: true, mode: 0o700 })
  try {
    await mkdir(draft, { mode: 0o700 })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    throw new OperatorError(`${draft} is there: another backup writes to it, or one was killed; delete it if no backup runs`, {
      cause: error,
    })
  }
}

/** Renames the finished backup to its name. Throws OperatorError when somebody has filled a folder of that name meanwhile. */
export async function putInPlace(draft: string, target: string): Promise<void> {
  try {
    await rename(draft, target)
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    throw ['ENOTEMPTY', 'EEXIST', 'ENOTDIR'].includes(code) ? targetExists(target, error) : error
  }
  syncFolder(dirname(target))
}

export function targetExists(target: string, cause?: unknown): OperatorError {
  return new OperatorError(`${target} is there already: give the backup a folder of its own`, { cause })
}
