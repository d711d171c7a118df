/** What the link of a mail to an operator is for. */
export interface MailedLink {
  action: 'choose-password' | 'confirm-email' | 'revert-email'
  token: string
}

const ACTIONS: Readonly<Record<string, MailedLink['action']>> = {
  'operator-invited': 'choose-password',
  'reset-password': 'choose-password',
  'confirm-email': 'confirm-email',
  'revert-email': 'revert-email',
}

/**
 * Takes a mail's one-time token out of the page's address, so that neither the history nor a bookmark keeps it. Returns
 * null if there is none.
 */
export function takeMailedLink(): MailedLink | null {
  const [, name = '', token = ''] = /^#([a-z-]+)=([\w-]+)$/.exec(location.hash) ?? []
  const action = ACTIONS[name]
  if (action === undefined) return null
  history.replaceState(null, '', location.pathname + location.search)
  return { action, token }
}
