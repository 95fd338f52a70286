package disk

// fill writes zeros, where the system cannot allocate without writing.
func fill(f File, size int64) error {
	zeros := make([]byte, min(size, 1<<20))
	for at := int64(0); at < size; {
		n, err := f.WriteAt(zeros[:min(size-at, int64(len(zeros)))], at)
		if err != nil {
			return err
		}
		at += int64(n)
	}
	return nil
}
