printf 'all:\n\t@echo built\n\t@echo warning >&2\n' > Makefile
head -c 300000 /dev/urandom > disk.img
mkdir photos
echo picture > photos/1.jpg
printf 'first line\nsecond line\n' > access.log

$ make 2>&1 | zc-tee build.log
printf 'built\nwarning\n' | cmp - build.log
cmp build.log "$out"

$ date | zc-tee -a history.log
test $status = 0
cmp "$out" history.log
echo more | zc-tee -a history.log > /dev/null
test "$(wc -l < history.log)" = 2

$ zc-tee copy.1 copy.2 copy.3 < disk.img > /dev/null
for copy in copy.1 copy.2 copy.3; do cmp disk.img $copy; rm $copy; done

$ tar -c photos | zc-tee photos.tar | sha256sum > photos.tar.sha256
test "$(tar -tf photos.tar | tail -n 1)" = photos/1.jpg
test "$(sha256sum < photos.tar)" = "$(cat photos.tar.sha256)"

$ zc-tee >(sha256sum > sha256) >(md5sum > md5) < disk.img > copy.img
cmp disk.img copy.img
until test -s sha256 && test -s md5; do sleep 0.02; done
test "$(sha256sum < disk.img)" = "$(cat sha256)"
test "$(md5sum < disk.img)" = "$(cat md5)"

$ zc-tee -p >(head -n 1 > first) < access.log > copy.log
test $status = 0
cmp access.log copy.log
until test -s first; do sleep 0.02; done
test "$(cat first)" = 'first line'

$ zc-tee --output-error=exit copy.1 copy.2 < disk.img > /dev/null
test $status = 0
cmp disk.img copy.1
cmp disk.img copy.2

$ zc-tee -c backup.img < disk.img > /dev/null
cmp disk.img backup.img

$ make 2>&1 | zc-tee -i build.log
printf 'built\nwarning\n' | cmp - build.log

$ zc-tee -v copy.1 < disk.img > copy.2
cmp disk.img copy.1
cmp disk.img copy.2
grep -q 300000 "$err"
