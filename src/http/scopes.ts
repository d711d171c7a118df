/** The scopes of API keys and operator roles. See docs/decisions/auth-access.md#scopes-and-roles. */
export const SCOPES = {
  'orders:read': 'Read orders of all customers, with their addresses and timelines.',
  'orders:move': 'Change the status of orders: confirm, ship, deliver, cancel, return, in whole or in part. Write internal notes.',
  'orders:place': 'Place orders for customers.',
  'orders:adjust': 'Set what is charged besides the lines, the state of the payment, and what was refunded.',
  'orders:amend': 'Correct delivery address, e-mail address and lines of an order, and the tracking of a parcel.',
  'products:write': 'Create, change, archive and import products.',
  'stock:read': 'Read stock and its adjustments, and the prices of products over time.',
  'stock:write': 'Set and adjust stock.',
  'customers:read': 'Read accounts of customers and what they ordered.',
  'customers:write': 'Block, unblock and erase accounts of customers.',
  'figures:read': 'Read figures over time, and which files the tables of the lake have.',
  'lake:query': 'Run SQL over the lake.',
  'mails:read': 'Read mails, their content and their templates.',
  'mails:send': 'Retry mails, and send them again.',
  'pipeline:read': 'Read the state of the pipeline, and past runs of verify and replay.',
  'pipeline:repair': 'Run verify and replay.',
  'webhooks:read': 'Read webhooks and their deliveries.',
  'webhooks:write': 'Redeliver events, enable and disable webhooks; with the right to read orders also add and change them.',
  'activities:read': 'Read what operators and keys have changed.',
  'access:write': 'Manage operators, their roles, and API keys.',
} as const

export type Scope = keyof typeof SCOPES

export const SCOPE_NAMES = Object.keys(SCOPES) as Scope[]

/** No key can make keys, because a stolen one could make others that outlive it. */
export const KEY_SCOPES = SCOPE_NAMES.filter((scope) => scope !== 'access:write')

export const ROLE_SCOPES = {
  customer: [],
  guest: [],
  support: ['orders:read', 'orders:move', 'orders:place', 'orders:amend', 'stock:read', 'customers:read', 'mails:read', 'mails:send'],
  warehouse: ['orders:read', 'orders:move', 'stock:read', 'stock:write'],
  catalogue: ['products:write', 'stock:read', 'stock:write', 'figures:read'],
  analyst: ['figures:read', 'lake:query', 'pipeline:read'],
  admin: SCOPE_NAMES,
} as const satisfies Record<string, readonly Scope[]>

export type AccountRole = keyof typeof ROLE_SCOPES
export type OperatorRole = Exclude<AccountRole, 'customer' | 'guest'>

export const ACCOUNT_ROLES = Object.keys(ROLE_SCOPES) as AccountRole[]
export const OPERATOR_ROLES = ACCOUNT_ROLES.filter(isOperatorRole)

export function isOperatorRole(role: AccountRole): role is OperatorRole {
  return role !== 'customer' && role !== 'guest'
}

export function permits(role: AccountRole, scope: Scope): boolean {
  const scopes: readonly Scope[] = ROLE_SCOPES[role]
  return scopes.includes(scope)
}

export function isAccountRole(role: unknown): role is AccountRole {
  return typeof role === 'string' && Object.hasOwn(ROLE_SCOPES, role)
}

export function isScope(name: string): name is Scope {
  return Object.hasOwn(SCOPES, name)
}
