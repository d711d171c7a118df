/** `unused` means that no process ever had the role, and `absent` that none has it now. */
export type SubscriberState = 'failing' | 'active' | 'absent' | 'unused'

interface Subscriber {
  is_active: boolean
  position: number | null
  state: string | null
}

export function stateOfSubscriber({ is_active, position, state }: Subscriber): SubscriberState {
  if (state === 'failing') return 'failing'
  if (is_active) return 'active'
  return position === null && state === null ? 'unused' : 'absent'
}
