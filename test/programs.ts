import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'

/** Debian installs servers in folders that are not on every user's PATH. */
export const PROGRAM_PATH = [process.env.PATH, '/usr/local/sbin', '/usr/sbin'].join(delimiter)

/**
 * Why a test that needs a program is skipped; false where it is installed, and where CI is true: there a skip would
 * hide a gap.
 */
export function missingProgram(program: string, debianPackage?: string): string | false {
  if (process.env.CI === 'true' || findProgram(program) !== null) return false
  const advice = debianPackage === undefined ? '' : ` (Debian: apt-get install --no-install-recommends ${debianPackage})`
  return `${program} is not on the PATH${advice}`
}

/** The path of a program, null where it is not installed. */
export function findProgram(program: string): string | null {
  const paths = PROGRAM_PATH.split(delimiter).map((folder) => join(folder, program))
  return paths.find(isExecutable) ?? null
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
