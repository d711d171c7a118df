/** A key may use `points` in `seconds`. */
export interface Limit {
  name: string
  points: number
  seconds: number
}

/** A limit for one client address (an IPv6 client's /64), and a higher limit for an IPv6 client's whole /48. */
export interface AddressLimit {
  address: Limit
  site: Limit
}

// A /48 is one customer of a data centre, or some hundred homes of a provider.
const SITE_FACTOR = 4

function byAddress(name: string, points: number, seconds: number): AddressLimit {
  return {
    address: { name: `${name}-address`, points, seconds },
    site: { name: `${name}-site`, points: points * SITE_FACTOR, seconds },
  }
}

// Wrong passwords for one account from one address. Five are free; then each waits 1 s, 2 s, 4 s … 15 min.
export const WRONG_PASSWORDS: Limit = { name: 'login', points: 5, seconds: 3_600 }
export const MAX_DELAY_SECONDS = 900
export const TURN: Limit = { name: 'login-turn', points: 1, seconds: MAX_DELAY_SECONDS }
// Wrong app codes for one account, by session, or by address at sign-ins. A stranger with the password cannot delay the
// owner elsewhere.
export const WRONG_CODES: Limit = { name: 'second-factor', points: 5, seconds: 3_600 }
export const CODE_TURN: Limit = { name: 'second-factor-turn', points: 1, seconds: MAX_DELAY_SECONDS }
// Wrong codes from anywhere in a day. Three codes of a million are right at any time. NIST SP 800-63B-4 §3.2.2 allows a
// hundred. Passkeys and recovery codes stay usable.
export const WRONG_CODES_OF_ACCOUNT: Limit = { name: 'second-factor-account', points: 100, seconds: 86_400 }
// Wrong codes after the correct password in a day. At this number the owner gets a mail.
export const WORRYING_CODES: Limit = { name: 'second-factor-notice', points: 5, seconds: 86_400 }
// Each correct password of an account with a second factor stores a row for minutes.
export const SECOND_FACTOR_CHALLENGES: Limit = { name: 'second-factor-challenge', points: 20, seconds: 300 }
// Wrong passwords from one address for any accounts. A whole office mistypes less often.
export const WRONG_PASSWORDS_OF_ADDRESS = byAddress('login', 100, 300)
// Each registration costs a hash, of which a core makes 20 to 50 a second, so an address uses 2 to 5 percent of a core.
// See docs/decisions/auth-throttling.md.
export const REGISTRATIONS = byAddress('register', 60, 60)
// The points of a registration with a taken address or a mail, so testing or flooding many addresses is slow.
export const COSTLY_REGISTRATION = 3
// Each challenge stores a row for minutes.
export const PASSKEY_CHALLENGES = byAddress('passkey', 60, 60)
export const RESETS: Limit = { name: 'password-reset', points: 5, seconds: 1_800 }
export const RESETS_OF_ADDRESS = byAddress('password-reset', 60, 1_800)
// A guest costs no hash and no mail, but its rows stay for days. An office orders less often.
export const GUESTS = byAddress('guest', 30, 600)
// Counted by client address too, so a stranger cannot keep others from ordering with an address.
export const GUESTS_OF_MAILBOX: Limit = { name: 'guest-mailbox', points: 10, seconds: 1_800 }
// An export reads an account's whole data.
export const EXPORTS: Limit = { name: 'export', points: 5, seconds: 3_600 }
// Changes and proofs of an address. Each sends up to two mails, one of them perhaps to a stranger's address.
export const EMAIL_CHANGES: Limit = { name: 'email-change', points: 5, seconds: 3_600 }
// Sign-ins with providers. Each causes two requests, a row, and calls to the provider.
export const SIGN_INS = byAddress('sign-in', 60, 60)
// Mails of each kind to one address. Past the limit requests succeed, but no mail is sent. Flooding a mailbox thus
// cannot lock out its owner, who has ten valid reset tokens. If the kinds shared a count, registrations would use up
// the resets.
export const MAILS: Limit = { name: 'account-mail', points: 10, seconds: 1_800 }
// Mails by one network (registrations) or account (new addresses). Only three of them together can use up an address's
// limit.
export const MAILS_BY_ONE: Limit = { name: 'account-mail-by-one', points: 4, seconds: 1_800 }
// The hash of a preview commits once. It is counted for longer than it is valid.
export const COMMITS: Limit = { name: 'mcp-commit', points: 1, seconds: 1_800 }
// Uses of one recipient's links to an order from one address. People reload the page several times.
export const ORDER_LINKS: Limit = { name: 'order-link', points: 60, seconds: 600 }
// Wrong postal codes for one recipient's links to an order, in a day and in a link's life. A town has dozens of codes,
// a country about ten thousand. The owner of a shared link can retry tomorrow.
export const POSTAL_CODES_OF_DAY: Limit = { name: 'postal-code-day', points: 5, seconds: 86_400 }
export const POSTAL_CODES: Limit = { name: 'postal-code', points: 20, seconds: 90 * 86_400 }
