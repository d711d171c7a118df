import { ROLES, type Role } from '../src/config.ts'
import { SUBSCRIBERS, type Subscriber } from '../src/subscribers.ts'

export const DEPENDENCIES = ['database', 'broker', 'bucket', 'mail server', 'CDN', 'disk'] as const
export type Dependency = (typeof DEPENDENCIES)[number]
/** `hanging`: while running, it takes connections and answers nothing; otherwise it refuses them. */
export const MOMENTS = ['while running', 'hanging', 'at start'] as const
export type Moment = (typeof MOMENTS)[number]
export type Work = 'orders' | 'events' | 'purges' | Subscriber['makes']
export const WORKS: readonly Work[] = [...new Set<Work>(['orders', 'events', 'purges', ...SUBSCRIBERS.map(({ makes }) => makes)])]

export interface Cell {
  /** What this role does no longer, because of the dependency itself or of a role that waits for it. */
  stops: readonly Work[]
  /** What `/readyz` names. */
  readyz: readonly string[]
  /** The dependency and the error, in the reason. */
  reason: RegExp
  /** The process does not start. */
  ends?: boolean
}

const NOTHING: Cell = { stops: [], readyz: [], reason: /^/ }
const ownOf = (role: Role): readonly Work[] =>
  role === 'api' ? ['orders'] : role === 'stream' ? ['events', 'purges'] : [...new Set(subscribersOf(role).map(({ makes }) => makes))]
const REFUSED = /ECONNREFUSED/
/** What waits gives up by a timeout of its own, or its dead connection is noticed. */
const SILENT = /time(d )?out|not answer|terminated|never received|session of the subscriber was ended/i

const subscribersOf = (role: Role) => SUBSCRIBERS.filter((one) => one.role === role)
const readersOf = (role: Role): readonly string[] =>
  role === 'stream' ? ['change_stream', 'catalogue_stream'] : subscribersOf(role).map(({ name }) => `subscriber_${name}`)

/** What a process with this role alone does without the dependency. */
function cellOf(role: Role, dependency: Dependency, moment: Moment): Cell {
  const away = moment === 'hanging' ? SILENT : REFUSED
  switch (dependency) {
    case 'database': {
      const stops = ownOf(role)
      if (moment === 'at start') return { stops, readyz: [], reason: REFUSED, ends: true }
      // The stream knows nothing more without the database.
      const subscribers = role === 'stream' ? [] : readersOf(role)
      return { stops, readyz: ['database', ...subscribers], reason: away }
    }
    case 'broker':
      if (role === 'api') return NOTHING
      return {
        stops: ownOf(role).filter((work) => work !== 'purges'),
        readyz: readersOf(role),
        reason: /NATS: .*(ECONNREFUSED|connection|timeout)/i,
      }
    case 'bucket':
      if (role !== 'lake') return NOTHING
      // Subscribers cannot read where the lake ends when they start.
      return { stops: ['lake'], readyz: moment === 'at start' ? readersOf('lake') : ['lake'], reason: away }
    case 'mail server':
      return role === 'email' ? { stops: ['mails'], readyz: ['mail_server'], reason: away } : NOTHING
    case 'CDN':
      return role === 'stream' ? { ...NOTHING, stops: ['purges'] } : NOTHING
    case 'disk':
      if (role === 'email') return { stops: ['mails'], readyz: [], reason: /ENOSPC/ }
      return role === 'lake' ? { stops: ['lake'], readyz: ['lake'], reason: /ENOSPC/ } : NOTHING
  }
}

/** One process with all roles has what each of them has. */
export function expected(role: Role | 'all', dependency: Dependency, moment: Moment): Cell {
  if (role !== 'all') return cellOf(role, dependency, moment)
  const cells = ROLES.map((each) => cellOf(each, dependency, moment))
  const reason = cells.find((cell) => cell.readyz.length > 0 || cell.ends)?.reason ?? NOTHING.reason
  const ends = cells.some((cell) => cell.ends)
  return { stops: cells.flatMap(({ stops }) => stops), readyz: [...new Set(cells.flatMap(({ readyz }) => readyz))], reason, ends }
}

/** The table of docs/operate/monitor.md. */
export function renderTable(): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  const rows = ROLES.map((role) => line([`\`${role}\``, ...DEPENDENCIES.map((dependency) => renderCell(role, dependency))]))
  return [line(['Role', ...DEPENDENCIES]), `|${'---|'.repeat(DEPENDENCIES.length + 1)}`, ...rows].join('\n')
}

function renderCell(role: Role, dependency: Dependency): string {
  const render = ({ stops, readyz, ends }: Cell) => {
    if (ends) return 'the process ends'
    if (stops.length === 0) return readyz.length === 0 ? '–' : readyz.join(', ')
    return `${stops.join(', ')}: ${readyz.length === 0 ? 'ready' : readyz.map((name) => `\`${name}\``).join(', ')}`
  }
  const [running = '', hanging = '', start = ''] = MOMENTS.map((moment) => render(expected(role, dependency, moment)))
  return running + (hanging === running ? '' : `; hanging ${hanging}`) + (start === running ? '' : `; at start ${start}`)
}
