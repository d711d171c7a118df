/** The address of a screen, such as `#orders?status=shipped`. Parameters without a value are left out. */
export function addressOf(screen: string, parameters: Readonly<Record<string, string | number | null | undefined>> = {}): string {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== '')
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString()
  return text === '' ? `#${screen}` : `#${screen}?${text}`
}
