import { byId, t } from './session.ts'

/**
 * Enhances the list, which also works without this script. Each choice takes effect at once, and further pages load
 * when the end of the list becomes visible.
 */
export function enhanceList(): void {
  const filters = byId<HTMLFormElement>('filters')
  let abort = new AbortController()
  const near = new IntersectionObserver((entries) => entries.some(({ isIntersecting }) => isIntersecting) && showMore(), {
    rootMargin: '600px',
  })
  const observe = () => {
    near.disconnect()
    near.observe(byId('more'))
  }

  const read = async (address: string, take: (other: Document) => void) => {
    abort.abort()
    abort = new AbortController()
    const { signal } = abort
    try {
      const answer = await fetch(address, { signal })
      // The address is no longer one of a list, so the answer is the page of another list.
      if (answer.redirected) return void location.assign(address)
      if (!answer.ok) throw new Error(`status ${answer.status}`)
      take(new DOMParser().parseFromString(await answer.text(), 'text/html'))
      byId('list-message').textContent = ''
      observe()
    } catch {
      if (!signal.aborted) byId('list-message').textContent = t('The products could not be loaded.')
    }
  }
  const showMore = () => {
    const link = byId('more').querySelector('a')
    if (link === null) return
    return read(link.href, (other) => {
      byId('products').append(...(other.getElementById('products')?.children ?? []))
      byId('more').replaceChildren(...(other.getElementById('more')?.childNodes ?? []))
    })
  }
  const choose = (event: Event) => {
    event.preventDefault()
    const chosen = [...new FormData(filters)].filter(([, value]) => value !== '') as [string, string][]
    const address = chosen.length === 0 ? location.pathname : `${location.pathname}?${new URLSearchParams(chosen)}`
    history.pushState(null, '', address)
    return read(address, (other) => {
      // The footer has links to the same list in other languages and currencies.
      for (const part of ['#results', 'footer']) document.querySelector(part)?.replaceWith(other.querySelector(part) as Element)
    })
  }
  filters?.addEventListener('change', choose)
  filters?.addEventListener('submit', choose)
  addEventListener('popstate', () => location.reload())
  observe()
}
