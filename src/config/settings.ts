import { OperatorError } from '../errors.ts'

/** A setting that cannot be used. The message names it; the process ends with exit status 2. */
export class ConfigError extends OperatorError {
  override readonly name = 'ConfigError'
  override readonly exitStatus = 2
}

export type Settings = ReturnType<typeof settingsOf>

/** Readers of single settings by name. An empty value counts as not set. They throw ConfigError. */
export function settingsOf(env: NodeJS.ProcessEnv) {
  const optional = (name: string) => {
    const value = env[name]?.trim()
    return value === undefined || value === '' ? null : value
  }
  const oneOf = <T extends string>(name: string, allowed: readonly T[], fallback: T): T => {
    const value = optional(name) ?? fallback
    if (!allowed.includes(value as T)) throw new ConfigError(`${name} must be one of ${allowed.join(', ')}`)
    return value as T
  }
  return {
    optional,
    oneOf,
    text: (name: string, fallback: string) => optional(name) ?? fallback,
    integer(name: string, fallback: number, min: number, max: number) {
      const value = optional(name)
      if (value === null) return fallback
      const number = readWholeNumber(value)
      if (!(number >= min && number <= max)) throw new ConfigError(`${name} must be a whole number from ${min} to ${max}`)
      return number
    },
    /** A whole number from 1 to `max`; null for `off`. A zero is refused: it could mean no limit, or nothing at all. */
    integerOrOff(name: string, fallback: number | null, max: number) {
      const value = optional(name)
      if (value === null) return fallback
      if (value === 'off') return null
      const number = readWholeNumber(value)
      if (!(number >= 1 && number <= max)) throw new ConfigError(`${name} must be off or a whole number from 1 to ${max}`)
      return number
    },
    // The value is not printed: it may contain a password.
    url(name: string, protocols: string[]) {
      const value = optional(name)
      if (value === null) return null
      if (!URL.canParse(value) || !protocols.includes(new URL(value).protocol)) {
        throw new ConfigError(`${name} must be a URL that starts with ${protocols.map((p) => `${p}//`).join(' or ')}`)
      }
      return value
    },
    /** In the order of `allowed`, all of them by default. */
    list<T extends string>(name: string, allowed: readonly T[]): readonly T[] {
      const value = optional(name)
      if (value === null) return allowed
      const wanted = value.split(',').flatMap((part) => part.trim() || [])
      const isKnown = wanted.every((part) => allowed.includes(part as T))
      if (!isKnown || wanted.length === 0) throw new ConfigError(`${name} must name some of ${allowed.join(', ')}`)
      return allowed.filter((part) => wanted.includes(part))
    },
  }
}

/** NaN for anything but up to nine digits. */
function readWholeNumber(text: string): number {
  return /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN
}
